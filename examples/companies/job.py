"""Put listed companies into a dozen sectors with a sentence-embedding model that runs here, on the CPU."""

from __future__ import annotations

import os
from dataclasses import dataclass

from minilm import Embedder, Vector
from prepare_companies import prepared

from onward import Job, jsonl

SECTORS: dict[str, tuple[str, ...]] = {
    "Energy": (
        "energy",
        "fossil fuels, coal",
        "oil and gas, petroleum",
        "oil and gas equipment and services, drilling, pipelines",
    ),
    "Financials": (
        "banks, banking services",
        "investment management, asset management, private equity, stock exchanges",
        "insurance, reinsurance",
        "financial services, consumer finance, payments",
    ),
    "Food and household goods": (
        "food processing, packaged foods",
        "beverages, brewers, tobacco",
        "household products, personal products, cosmetics",
        "consumer staples, consumer non-cyclicals",
    ),
    "Health care": (
        "health care services, hospitals, managed health care",
        "pharmaceuticals, biotechnology",
        "medical devices, health care equipment and supplies",
    ),
    "Industrials": (
        "industrials, industrial goods",
        "industrial machinery, tools, manufacturing",
        "electrical equipment, heavy machinery",
        "aerospace and defense",
        "construction and engineering, building products",
        "business services, staffing, consulting, professional services",
    ),
    "Materials": (
        "chemicals, specialty chemicals",
        "metals, mining, steel",
        "packaging, paper, glass, construction materials",
    ),
    "Real estate": (
        "real estate",
        "real estate investment trusts (REITs)",
        "real estate development and operations, property",
    ),
    "Retail and leisure": (
        "retail, retailers, supermarkets, department stores, e-commerce",
        "restaurants, hotels, casinos, travel, leisure",
        "apparel, footwear, sports equipment, luxury goods, furniture",
        "home construction, household durables, consumer discretionary",
    ),
    "Technology": (
        "information technology, technology",
        "software, IT services, cloud computing, internet",
        "semiconductors",
        "computer hardware, electronic equipment, electronics",
    ),
    "Telecommunications and media": (
        "telecommunications services",
        "media, publishing, broadcasting, advertising",
        "entertainment, video games, film, music",
    ),
    "Transport and automotive": (
        "automotive, automobiles, trucks, auto parts",
        "automobile manufacturers, car makers, consumer cyclicals",
        "airlines, airports, railways, buses",
        "shipping, freight, logistics, transportation",
    ),
    "Utilities": (
        "electric utilities, electric power",
        "gas utilities, water utilities",
        "utilities, renewable power generation",
    ),
}
UNCLEAR = "Unclear"
UNCLEAR_BELOW = 0.3


@dataclass
class Company:
    name: str
    industries: list[str]
    headquarters: str | None


@dataclass
class Sector:
    """`similarity` is the cosine for `nearest`, `margin` how far it is ahead of `second`.

    `sector` is the nearest, unless nothing is near enough to mean anything.
    """

    sector: str
    nearest: str
    similarity: float
    second: str
    margin: float


job = Job("companies", source=lambda: jsonl(str(prepared()), key="name"), record=Company)


@job.resource
def embedder() -> Embedder:
    return Embedder()


@job.resource
def sectors(embedder: Embedder) -> dict[str, Vector]:
    return {sector: embedder.centre(texts) for sector, texts in SECTORS.items()}


@job.step(concurrency=os.cpu_count(), uses=Embedder)
def embed(company: Company, embedder: Embedder) -> list[float]:
    """What the company does, as 384 numbers. Its name says it only where no industry is known."""
    vector = embedder.embed(", ".join(company.industries) or company.name)
    return [round(float(number), 5) for number in vector]


@job.step(uses=SECTORS)
def classify(company: Company, embed: list[float], sectors: dict[str, Vector]) -> Sector:
    """The sector whose descriptions, taken together, point most nearly the same way."""
    similarity = {sector: float(centre @ embed) for sector, centre in sectors.items()}
    nearest, second = sorted(similarity, key=lambda sector: -similarity[sector])[:2]
    return Sector(
        sector=nearest if similarity[nearest] >= UNCLEAR_BELOW else UNCLEAR,
        nearest=nearest,
        similarity=round(similarity[nearest], 3),
        second=second,
        margin=round(similarity[nearest] - similarity[second], 3),
    )
