"""A small, fast server that speaks the OpenAI API and misbehaves on request, in a process of its own.

    python -m tests.llm_server --port 0 --log requests.jsonl [--set latency=0.05] [--set key='"secret"'] [--until-eof]

It prints two addresses: that of the API, and a second one that has only `/control` and `/log` and answers also while
the first refuses connections. In tests: `with helpers.llm.llm_server(folder) as server`.

POST /v1/responses, /v1/chat/completions       not streamed; with a json_schema, an instance that fits it
GET  /v1/models, /v1/models/NAME
POST GET DELETE /v1/files…, /v1/batches…        upload, content, delete; create, retrieve, list with paging, cancel
GET  /log                                       the log, one JSON line a request
GET  /control · POST /control {"latency": 0.2}  the switches; `{"reset": true, …}` sets all others back as at the start

**Answers** are a function of the request's text, its schema and its model, and of nothing else. A token is
`chars_per_token` characters; a system text of `cached_from` tokens and more that was there before counts as cached.

**The log** has a line for each request: `at`, `ended` (epoch seconds), `method`, `endpoint`, `hash` (of its body),
`key` (that of the marker), `model`, `status`, `fault`, `nth` (how often this key, or without one this first user
text, was asked by then), `delivered` (false: the client had gone; the work was done and would be billed),
`input_tokens`, `cached_tokens`, `output_tokens`, `batch` (of a batch's line: its id). It is written when the answer is,
into a file that is only appended to.

**Markers** in a prompt's text: `[[key=…]]` goes into the log, `[[latency=2]]` seconds, `[[tokens=500]]` tokens of the
answer, `[[tenant=…]]`, `[[fault=NAME]]` and `[[fault=NAME*2]]` (only the first two times that this key is asked).

**Faults** by name:

| name | |
|---|---|
| `400` `401` `403` `408` `409` `422` `429` `500` `502` `503` `504` | that status, with the API's own error object |
| `quota` | 429 `insufficient_quota` |
| `model` `context` `schema` | 404 `model_not_found`, 400 `context_length_exceeded`, 400 `invalid_json_schema` |
| `html` `html_503` | a page of a proxy, with status 200 or 503 |
| `empty` `broken_json` | status 200 and nothing, or half an object, complete as HTTP |
| `cut` | the connection is closed in mid-body, short of Content-Length |
| `reset` | the connection is reset, and nothing was done |
| `lost` | it is done (and billed), then the connection is reset |
| `hang` · `late` | never answered · answered after `late_after` seconds |
| `incomplete` `incomplete_empty` | cut off for its length, with half of the answer or none of it |
| `refusal` `content_filter` `failed` | the model refuses; the filter cuts; `status: failed` (chat: 500) |
| `misfit` `misfit_json` | fits no schema; is no JSON |
| `big` | an answer of 2 MB |

**Switches** (`--set NAME=JSON`, `POST /control`):

| switch | default | |
|---|---|---|
| `latency` | 0.05 | seconds, or `{"median": 0.05, "sigma": 0.5}`: lognormal, drawn from the seed and the request |
| `latency_per_open` | 0 | seconds more for each request that is being answered |
| `seed` | 1 | of all that is drawn by chance |
| `answer_tokens` | 8 to 60 | a number, or `{"median": 40, "sigma": 0.8}` |
| `reasoning_tokens` | 0 | so many besides, counted as output |
| `chars_per_token`, `cached_from` | 4, 1024 | see above |
| `key` | null | what `Authorization` must bear; another is 401. Changed while running: the old one is revoked |
| `forbidden_tenants` | [] | 403 for these |
| `models` | null | names that exist; null: all |
| `context_tokens` | 400000 | a longer prompt is `context_length_exceeded` |
| `requests_per_minute`, `tokens_per_minute` | null | 429 beyond them; tokens are those of the finished call |
| `burst_seconds` | 60 | how much of these limits may be used at once |
| `most_open` | null | 429 when more are being answered |
| `retry_after` | null | seconds; null: when there will be room |
| `retry_after_form` | "seconds" | or "date", "ms" (`retry-after-ms`), "none" |
| `rate_headers` | true | `x-ratelimit-…` with every answer while there is a limit |
| `outage` | null | "503", "html", "html_503", "hang", "reset"; "refused": the port is closed, connections are reset |
| `outage_seconds` | null | it ends by itself after so long; null: when told |
| `chances` | {} | `{"503": 0.1, "misfit": [0.2, 1]}`: probability, and how often at most to one key |
| `at` | {} | a fault for an endpoint: `{"POST /v1/batches": "lost*1"}` |
| `late_after` | 5 | seconds |
| `chat_only` | false | no /v1/responses: 404 |
| `strict_schemas` | true | a strict schema must be of the kind that the API accepts, else `invalid_json_schema` |
| `batch_validating`, `batch_running`, `batch_finalizing` | 0.1, 0.3, 0.1 | seconds in each status |
| `batch_end` | "completed" | or "failed" (nothing done), "expired" |
| `batch_done` | 1.0 | the share of lines that were answered before it expired |
| `batch_lost` | 0 | so many lines are in neither file |
| `batch_list_lag` | 0 | seconds until a new batch is listed, from when its server was first asked for a list |
| `end_batches` | null | "completed", "failed", "expired": all that run end so now |
"""
