"""Planted defects of the effect protocol: of its order, its keys, its ledger, and of what an outcome means."""

from __future__ import annotations

from mutants.defect import Defect

LEDGER = "tests/contract/test_store_ledger.py"
WORDS = "tests/contract/test_store_words.py"
POLICY = "tests/unit/test_effect_policy.py"
COURSE = "tests/unit/test_effect_course.py"
OUTCOMES = "tests/unit/test_policy_outcomes.py"
ENGINE = "tests/unit/test_engine_effects.py"
KILLERS = "tests/acceptance/test_case_14.py"
RECONCILE = "tests/acceptance/test_reconcile.py"

ABOUT_SENDING = (
    Defect(
        "intent-not-awaited",
        "a send begins while the commit of its intent is still under way",
        "engine/worker.py",
        (
            (
                "        self.journal.state(fact)\n        self.plan_flush(self.slots.paused)\n",
                "        self.journal.state(fact)\n        self.plan_flush(self.slots.paused)\n"
                "        said, attempt = fact.effect, self.held.get((fact.record, fact.fence))\n"
                "        if said is not None and said.payload is not None:\n"
                "            from onward.model import Entry\n"
                "            made = (fact.record, fact.generation, fact.fence, time.time(), time.time())\n"
                "            attempt.entry = Entry(\n"
                "                said.name, said.key, said.state, said.payload, said.payload_hash, None, *made\n"
                "            )\n"
                "            self.plan_flush(True)\n"
                "            self.slots.put(attempt, first=True)\n",
            ),
            (
                "        if fact.effect is not None and (instead",
                "        if fact.effect is not None and fact.effect.payload is not None:\n"
                "            return\n"
                "        if fact.effect is not None and (instead",
            ),
        ),
        (ENGINE, "-k", "durable"),
    ),
    Defect(
        "sent-under-an-old-lease",
        "a run that may have been taken over goes on sending",
        "engine/journal.py",
        (("return self._clock.steady() - self._renewed_at < self._renew_every * 2", "return True"),),
        (ENGINE, "-k", "lease"),
    ),
    Defect(
        "deadline-from-the-send",
        "the deadline counts from when the call begins: who finds the intent believes it over too early",
        "policy/effects.py",
        (("return begins_within(deadline) + deadline", "return deadline"),),
        (POLICY, "-k", "by_when"),
    ),
    Defect(
        "payload-made-anew",
        "a send is made of what the record has become, not of what was frozen",
        "engine/attempt.py",
        (('if self.phase != "send" or self.entry is None', "if True or self.entry is None"),),
        (COURSE, "-k", "frozen"),
    ),
    Defect(
        "not-probed-first",
        "an effect whose far side knows no keys is sent without a question",
        "policy/effects.py",
        (("return self.has_probe and self.probe_first and not self.keyed", "return False"),),
        (POLICY, COURSE, "-k", "probed_first or before_the_first_send"),
    ),
)

ABOUT_KEYS = (
    Defect(
        "key-from-order",
        "the key is that of the record's place in the store",
        "engine/effects/calls.py",
        (("fields = effect.identify(value)", 'fields = {"number": attempt.claimed.id}'),),
        (ENGINE, "-k", "order"),
    ),
    Defect(
        "key-per-attempt",
        "every attempt has a key of its own",
        "engine/effects/calls.py",
        (("fields = effect.identify(value)", "fields = {**effect.identify(value), 'try': attempt.claimed.fence}"),),
        (ENGINE, "-k", "every_attempt"),
    ),
    Defect(
        "key-per-job",
        "the ledger is each job's own: a renamed job sends again",
        "engine/effects/calls.py",
        (("fields = effect.identify(value)", "fields = {**effect.identify(value), 'job': attempt.plan.job}"),),
        (ENGINE, "-k", "order"),
    ),
    Defect(
        "key-from-hash",
        "the key depends on the process that makes it",
        "policy/identity.py",
        (("hashlib.blake2b(text.encode(), ", "hashlib.blake2b(str(hash(text)).encode(), "),),
        ("tests/unit/test_identity.py", "-k", "golden or hash_seed"),
    ),
    Defect(
        "expires-ignored",
        "a key is trusted after the far side has forgotten it",
        "policy/effects.py",
        (("if not self.keyed or self.expires is None:", "if True:"),),
        (POLICY,),
    ),
)

ABOUT_OUTCOMES = (
    Defect(
        "ambiguous-is-failed",
        "a timeout or a reset is taken as not applied, and sent again",
        "policy/failures.py",
        (("is Connection.REFUSED\n", "is Connection.REFUSED or isinstance(error, OSError)\n"),),
        (OUTCOMES,),
    ),
    Defect(
        "any-exception-is-failed",
        "whatever a send raises is taken as not applied",
        "engine/effects/course.py",
        (("if not isinstance(outcome, Raised) or not outcome.failure.not_applied:", "if outcome is None:"),),
        (COURSE, "-k", "without_an_answer"),
    ),
    Defect(
        "409-is-done",
        "a 409 is taken as the far side's word that it has it",
        "engine/effects/course.py",
        (
            (
                "        if not isinstance(outcome, Raised) or not outcome.failure.not_applied:\n",
                "        if isinstance(outcome, Raised) and outcome.failure.status == 409:\n"
                '            return self._receipt("null", "the far side has it already")\n'
                "        if not isinstance(outcome, Raised) or not outcome.failure.not_applied:\n",
            ),
        ),
        (COURSE, "-k", "without_an_answer"),
    ),
    Defect(
        "409-is-refused",
        "a 409 is taken as not applied",
        "policy/failures.py",
        (("frozenset({400, 401, 403, 404, 422, 429})", "frozenset({400, 401, 403, 404, 409, 422, 429})"),),
        (OUTCOMES,),
    ),
    Defect(
        "refused-again-is-refused",
        "a second send that was refused is taken as proof that the first was not applied",
        "engine/effects/course.py",
        (("if again and not self._refuses_the_key(outcome.failure):", "if False:"),),
        (COURSE, "-k", "second_send"),
    ),
    Defect(
        "unknown-costs-an-attempt",
        "a send without an answer uses up an attempt: a record fails by its registry's bad days",
        "engine/attempt.py",
        (
            (
                "fact = self._fact(State.UNCONFIRMED, step=self.step.name, "
                "attempts=max(self.attempts - int(self.started), 0))",
                "fact = self._fact(State.UNCONFIRMED, step=self.step.name, attempts=self.attempts)",
            ),
        ),
        (COURSE, "-k", "uses_up_no_attempt"),
    ),
)

ABOUT_PROBES = (
    Defect(
        "probe-before-settle",
        "a probe is asked, and its ABSENT believed, while what was sent may still land",
        "policy/effects.py",
        (("due = max(due, landed_by(traits, entry))", "pass"),),
        (POLICY, COURSE, "-k", "believed_only_after or newest_send or nothing_can_land"),
    ),
    Defect(
        "settle-not-waited-for",
        "a lookup that lags behind is believed as soon as the deadline has passed",
        "policy/effects.py",
        (("return ended_by + settles_within(traits, entry)", "return ended_by"),),
        (POLICY, "-k", "believed_only_after or newest_send"),
    ),
    Defect(
        "late-end-not-counted",
        "what was sent by a call that ended long past its deadline is believed to have landed",
        "engine/effects/course.py",
        (("return max(now + settles_within(self.traits, entry), landed_by", "return max(landed_by"),),
        (COURSE, "-k", "ended_late"),
    ),
    Defect(
        "probe-error-is-absent",
        "a probe that raises is taken as the answer that nothing is there",
        "engine/effects/calls.py",
        (('return Answered("unknown", reason=f"the {attempt.phase} raised', 'return Answered("absent", reason=f"'),),
        (ENGINE, "-k", "probe"),
    ),
    Defect(
        "probe-silence-is-absent",
        "a probe that returns None or UNKNOWN is taken as the answer that nothing is there",
        "engine/effects/calls.py",
        (('return Answered("unknown", reason="the probe could not tell")', 'return Answered("absent")'),),
        (ENGINE, "-k", "probe"),
    ),
)

ABOUT_RECEIPTS = (
    Defect(
        "receipt-not-kept",
        "a receipt is durable only with its confirmation: a run that resumes sends again",
        "engine/effects/course.py",
        (("        fact.effect = self._said(EntryState.SENT, receipt=receipt)\n", "        fact.effect = None\n"),),
        (COURSE, "-k", "receipt_comes_first or what_a_probe_finds"),
    ),
    Defect(
        "receipt-lost-by-later-words",
        "what is said of an entry later takes its receipt away",
        "store/sqlite/ledger.sql",
        (("receipt = coalesce(f.receipt, effects.receipt)", "receipt = f.receipt"),),
        (LEDGER, "-k", "receipt"),
    ),
    Defect(
        "sent-is-sent-again",
        "who resumes from a receipt treats it as unknown, and sends again",
        "policy/effects.py",
        (
            (
                "    if entry.state is EntryState.SENT:\n        return _about_receipt",
                "    if False:\n        return _about_receipt",
            ),
        ),
        (POLICY, COURSE, "-k", "receipt"),
    ),
    Defect(
        "mismatch-is-confirmed",
        "an acknowledgement with another fee counts as one",
        "engine/effects/calls.py",
        (
            (
                "    if isinstance(answer, Mismatch):\n        return Answered(",
                "    if False:\n        return Answered(",
            ),
            ("    if answer is True:", "    if answer is True or isinstance(answer, Mismatch):"),
        ),
        (RECONCILE, "-k", "does_not_match"),
    ),
    Defect(
        "unconfirmed-is-succeeded",
        "a run that leaves effects unconfirmed says that all is well",
        "engine/closing.py",
        ((" + counts.of(State.QUARANTINED) + counts.of(State.UNCONFIRMED)", " + counts.of(State.QUARANTINED)"),),
        (RECONCILE, "-k", "is_not_sent_again"),
    ),
    Defect(
        "outage-not-stayed-for",
        "a run ends although an outage is all that keeps its effects unconfirmed",
        "engine/standings.py",
        (("                found.append(now)\n", "                pass\n"),),
        (ENGINE, "-k", "outage"),
    ),
)

ABOUT_RUNS = (
    Defect(
        "others-gates-ignored",
        "what another run has left at a gate is never claimed: the run waits for ever",
        "engine/standings.py",
        (("if any(gate is not None for gate in waiting):", "if False:"),),
        (ENGINE, "-k", "another_run", "--timeout=20"),
    ),
    Defect(
        "suspects-at-large",
        "a suspect whose effect is open is tried among others, and takes them along for ever",
        "engine/worker.py",
        (("            self.on_suspects(suspects)\n", "            pass\n"),),
        (KILLERS, "-k", "effect"),
    ),
    Defect(
        "suspects-undivided",
        "suspects whose effects are open begin together each time they come back: the guilty is never alone",
        "engine/suspects.py",
        (("one.is_part and", "False and"),),
        ("tests/unit/test_engine_suspects.py", "-k", "stay_divided"),
    ),
)

ABOUT_THE_LEDGER = (
    Defect(
        "confirmed-without-fence",
        "the confirmation of a run that lost the record is taken",
        "store/sql/facts.py",
        (
            (
                "    if change.execute_all(moves) != [len(rows) for _, rows, _ in moves]:",
                "    if not change.execute_all(moves) and moves:",
            ),
        ),
        (LEDGER, "-k", "stale_holder"),
    ),
    Defect(
        "settled-for-another",
        "a fact about an entry that another record took over is written into it",
        "store/sqlite/ledger.sql",
        (
            ("AND effects.record = f.record\n\n-- Most of what", "\n\n-- Most of what"),
            ("AND effects.record = f.record\n\n-- name: entries", "\n\n-- name: entries"),
        ),
        (LEDGER, "-k", "late_receipt"),
    ),
    Defect(
        "confirmed-for-another",
        "what is confirmed of an entry that another record took over is written into it",
        "store/sqlite/ledger.sql",
        (("AND effects.record = f.record\n\n-- name: entries", "\n\n-- name: entries"),),
        (LEDGER, "-k", "late_receipt"),
    ),
    Defect(
        "conflict-adopted",
        "another payload under the same key is taken for done",
        "policy/effects.py",
        (("if entry.payload_hash != payload_hash:", "if False:"),),
        (POLICY, "-k", "conflict or another_record"),
    ),
    Defect(
        "unknown-superseded",
        "an intent overwrites what may have been sent",
        "policy/effects.py",
        (
            (
                '    if entry.state is EntryState.ABSENT:\n        return "wait"',
                '    if entry.state in (EntryState.ABSENT, EntryState.UNKNOWN):\n        return "wait"',
            ),
        ),
        (POLICY, LEDGER, "-k", "another_record or ever_superseded"),
    ),
    Defect(
        "both-may-send",
        "of two records with one obligation each is told that it may send",
        "store/sql/ledger.py",
        (
            (
                "entry.state is EntryState.INTENDED and (entry.record, entry.fence) == (fact.record, fact.fence)",
                "entry.state is EntryState.INTENDED",
            ),
        ),
        (LEDGER, "-k", "exactly_one"),
    ),
    Defect(
        "adopted-as-if-unsent",
        "the intent of a job that died is taken over as if nothing had been sent under it",
        "store/sql/ledger.py",
        (("lost_sight = adopted and entry.state is EntryState.INTENDED", "lost_sight = False"),),
        (LEDGER, "-k", "another_job"),
    ),
    Defect(
        "clock-set-back-makes-younger",
        "a clock that was set forward makes what was sent just now look landed",
        "store/sql/ledger.py",
        (("if elapsed is None else now - elapsed", "if True else now - elapsed"),),
        (LEDGER, "-k", "clock or set_forward"),
    ),
)

ABOUT_PEOPLE = (
    Defect(
        "word-about-anything",
        "a person's word is taken about a record that is not unconfirmed",
        "store/sql/reconciling.py",
        (
            ("if state != State.UNCONFIRMED or entry not in OPEN:", "if False:"),
            ('        assert changed == 1, "the entry was open in this transaction"\n', ""),
        ),
        (WORDS, "-k", "second_word or other_states"),
    ),
    Defect(
        "not-sent-ignored",
        "a person says that it was not sent, and the entry stays as it was",
        "store/sql/reconciling.py",
        (("state = EntryState.ABSENT if receipt is None else", "state = EntryState.UNKNOWN if receipt is None else"),),
        (WORDS, "-k", "not_sent"),
    ),
    Defect(
        "word-without-a-trace",
        "what a person decides is not in the history",
        "store/sql/reconciling.py",
        (("        self._tell(step)\n", ""),),
        (WORDS, "-k", "sent"),
    ),
)

ABOUT_CHANGES = (
    Defect(
        "open-effect-forgotten",
        "a changed input takes the place of one whose effect is open, which nobody asks about any more",
        "store/sql/feeding.py",
        (("if state != State.SUCCEEDED and (is_open or changed):", "if False:"),),
        ("tests/contract/test_store_changed_inputs.py", "-k", "keeps"),
    ),
    Defect(
        "old-input-sent",
        "a probe says that nothing was sent, and the old input is sent though a new one waits",
        "store/sql/facts.py",
        (("facts, withdrawn = changed_inputs.withdrawn(change, facts)", "pass"),),
        ("tests/contract/test_store_changed_inputs.py", "-k", "finds_nothing"),
    ),
    Defect(
        "other-key-sent",
        "what was sent is sent again, since the fields of its key have changed",
        "store/sql/ledger.py",
        (("self._under_another_key([fact for fact in intents if _may_be_owed(fact)])", "{}"),),
        ("tests/contract/test_store_other_keys.py", "-k", "sent_again"),
    ),
    Defect(
        "bereaved-for-ever",
        "a record whose obligation was taken over is never told what became of it",
        "store/sql/ledger.py",
        (('    wake(change, said["confirm_entries"] + absent)\n', ""),),
        ("tests/contract/test_store_adoption.py", "-k", "goes_on"),
    ),
    Defect(
        "cut-send-believed-ended",
        "a probe is asked about a send that its run's end has cut, while its thread goes on",
        "engine/performing.py",
        (("        if attempt.sending:\n            self.sends_on", "        if False:\n            self.sends_on"),),
        ("tests/unit/test_sends_cut_short.py", "-k", "person"),
    ),
    Defect(
        "conflict-without-a-way-back",
        "a release out of a conflict comes upon it again, though the code was put back",
        "store/sql/deciding.py",
        (('if choice.act == "release" else []', "if False else []"),),
        ("tests/contract/test_store_changes.py", "-k", "conflict"),
    ),
)

NEWEST = (
    Defect(
        "give-up-marker-lost",
        "a call that does not return is noted as one that ended without an answer",
        "engine/effects/course.py",
        (
            (
                "entry = replace(self._held(), state=EntryState.INTENDED)",
                "entry = replace(self._held(), state=EntryState.UNKNOWN)",
            ),
        ),
        (COURSE, "-k", "never_returns"),
    ),
    Defect(
        "pause-heard-late",
        "what is paused when a run begins is heard of only after its first claims",
        "engine/session.py",
        (("        self._governor.standings.hear(self._orders.pauses)  # before anything is claimed\n", ""),),
        (ENGINE, "-k", "pause_that_was_there"),
    ),
    Defect(
        "hanging-call-not-waited-for",
        "a record meets an obligation whose call hangs in a living process, and goes on with it",
        "store/sql/ledger.py",
        (
            (
                "sending = may_be and self._life.is_held(self._change.transaction, sent_by)",
                "sending = False",
            ),
        ),
        (LEDGER, "-k", "given_up_is_waited_for"),
    ),
    Defect(
        "lapsed-call-not-waited-for",
        "a run whose lease has run out is taken for dead, and asked about while its process goes on sending",
        "store/sql/burying.py",
        (("lives = life.is_held(change.transaction, other)", "lives = False"),),
        ("tests/contract/test_store_lapsed_calls.py", "-k", "waited_for"),
    ),
    Defect(
        "death-not-noted",
        "what a call that overran its deadline has sent is asked about as soon as its process has died",
        "store/sql/burying.py",
        (('            change.execute("calls_of_dead_ended", run=other)\n', "            pass\n"),),
        ("tests/contract/test_store_ended_calls.py", "-k", "buries"),
    ),
    Defect(
        "return-not-noted",
        "what a call has sent that was given up on is asked about as soon as its thread has returned",
        "store/sql/work.py",
        (('            change.execute("given_up_calls_ended", ended)\n', ""),),
        ("tests/contract/test_store_ended_calls.py", "-k", "given_up or cut"),
    ),
    Defect(
        "vanished-in-mid-send-taken-over",
        "an obligation is taken over from a record that vanished while it is being sent",
        "store/sql/ledger.py",
        (
            (
                "goes_on = state in GOES_ON_GONE if vanished else state in OPEN",
                "goes_on = state in OPEN and not vanished",
            ),
        ),
        ("tests/contract/test_store_bereaved.py", "-k", "good_hands"),
    ),
    Defect(
        "bereaved-in-progress-for-ever",
        "a record whose obligation was taken over while it was at work stays in progress in a living run",
        "store/sql/facts.py",
        (("        _let_go(change, [fact for fact in facts if (fact.record, fact.fence) in bereaved])\n", ""),),
        ("tests/contract/test_store_bereaved.py", "-k", "taken"),
    ),
    Defect(
        "not-sent-of-a-living-call",
        'a person may say "not sent" of a call that may still be sending',
        "store/sql/reconciling.py",
        (("if self._word.receipt is None and may_be_sending(state, entry) and", "if False and"),),
        (WORDS, "-k", "may_still_be_sending"),
    ),
    Defect(
        "lone-403-stops-at-once",
        "a 403 stops the run while calls beside it may still tell that it is meant for one record",
        "engine/gates/refusals.py",
        (("if failure.status != FORBIDDEN or self.has_succeeded(step):", "if True:"),),
        ("tests/acceptance/test_case_28.py", "-k", "one_tenant"),
    ),
    Defect(
        "credentials-in-texts",
        "what looks like a credential stays in the text of an error",
        "policy/masking.py",
        (("text = pattern.sub(_kept, text)", "pass"), ("text = text.replace(secret, MASK)", "pass")),
        ("tests/unit/test_policy_masking.py",),
    ),
)

EFFECT_DEFECTS = (
    *ABOUT_SENDING,
    *ABOUT_KEYS,
    *ABOUT_OUTCOMES,
    *ABOUT_PROBES,
    *ABOUT_RECEIPTS,
    *ABOUT_RUNS,
    *ABOUT_THE_LEDGER,
    *ABOUT_PEOPLE,
    *ABOUT_CHANGES,
    *NEWEST,
    Defect(
        "late-send",
        "what waited for its resources is sent long after its intent, as nobody can know who finds it",
        "engine/calls.py",
        (("        if attempt.is_late:\n            raise _Late\n", ""),),
        (ENGINE, "-k", "however_slowly"),
    ),
    Defect(
        "onward-s-no-is-the-far-side-s",
        "what onward itself says no to inside a send is taken for a send that was not applied",
        "engine/calls.py",
        (("not_applied=not attempt.begun", "not_applied=True"),),
        (ENGINE, "-k", "says_no_to"),
    ),
    Defect(
        "declared-times-forgotten",
        "what was declared when it was sent no longer holds for who asks about it",
        "policy/effects.py",
        (("    return max(traits.settle, entry.settle)\n", "    return traits.settle\n"),),
        ("tests/acceptance/test_edited_effects.py", "-k", "less_is_declared"),
    ),
    Defect(
        "gate-opens-for-nobody",
        "a run never ends in an outage when nobody is left to be tried",
        "engine/gates/admission.py",
        (("lets_one_in and gate not in self._letting_in", "lets_one_in"),),
        (ENGINE, "-k", "ends_in_an_outage"),
    ),
    Defect(
        "person-too-early",
        "a person is believed who looked before what was sent can have arrived",
        "store/sql/reconciling.py",
        (("        if self._change.now < lands:\n", "        if False:\n"),),
        ("tests/acceptance/test_edited_effects.py", "-k", "is_not_believed"),
    ),
    Defect(
        "former-name-dropped",
        "formerly= may be left out again while obligations stand under the former name",
        "store/sql/names.py",
        (("dropped(declared, said, gone) or ", ""),),
        ("tests/acceptance/test_edited_effects.py", "-k", "is_kept"),
    ),
    Defect(
        "old-and-new-at-once",
        "code before and after a renaming works at the same time",
        "store/sql/names.py",
        (("if is_alive(run, boot, lease_until) and", "if False and"),),
        ("tests/acceptance/test_edited_effects.py", "-k", "at_the_same_time"),
    ),
    Defect(
        "refused-before-hides-done",
        "an obligation that was refused under a former name hides that it is done under today's",
        "store/sql/ledger.py",
        (("key=lambda place: absent[place]", "key=lambda place: place == today"),),
        ("tests/acceptance/test_edited_effects.py", "-k", "under_today"),
    ),
    Defect(
        "model-s-word-for-the-far-side",
        "what a model refuses is taken for what the far side says",
        "policy/failures.py",
        (("    if is_a_models(error):\n        return False\n", ""),),
        ("tests/acceptance/test_ai_job.py", "-k", "says_nothing"),
    ),
    Defect(
        "age-after-a-reboot",
        "an intent whose age nobody knows counts as new for ever",
        "store/sql/work.py",
        (('            change.execute("begin_times_anew")\n', "                    pass\n"),),
        (LEDGER, "-k", "begins_anew"),
    ),
    Defect(
        "locks-of-the-process",
        "a step that reads the files of the store drops the locks of its run",
        "store/sqlite/liveness.py",
        (('sys.platform == "linux"', 'sys.platform == "none"'),),
        ("tests/contract/test_sqlite_together.py", "-k", "drops_no_lock"),
    ),
    Defect(
        "stops-never",
        "a run that is told to stop waits for ever for room at the next step",
        "engine/worker.py",
        (
            (
                "        elif self.stopping:\n            self.give_back(attempt)\n        else:\n            self.ad",
                "        else:\n            self.ad",
            ),
            (
                '        self.admission.release(attempt)\n        self.submit(attempt.given_back("the run is st',
                '        self.submit(attempt.given_back("the run is st',
            ),
        ),
        ("tests/acceptance/test_cli_signals.py", "-k", "no_room"),
    ),
    Defect(
        "receipt-of-another-job-taken",
        "a receipt that another job's .confirm has to judge is confirmed by a job that has none",
        "policy/effects.py",
        (
            (
                'Act("finish") if entry.origin is None else Act("wait for a person", reason=_to_be_confirmed(entry))',
                'Act("finish")',
            ),
        ),
        (POLICY, "-k", "by_who_cannot"),
    ),
    Defect(
        "set-aside-though-never-called",
        "what was about to be sent when the run stopped is set aside for a person, though nothing was called",
        "engine/effects/course.py",
        (("if outcome is None and not self.attempt.begun and not again:", "if False:"),),
        (ENGINE, "-k", "while_resources_open"),
    ),
    Defect(
        "lock-file-gone",
        "a run whose lock file was removed counts as dead though it lives",
        "store/sqlite/work.py",
        (("        self._locks.look()\n", ""),),
        ("tests/contract/test_sqlite_together.py", "-k", "was_removed"),
    ),
)
