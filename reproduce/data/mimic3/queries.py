"""The SQL of the cohort, one function for each step; identifiers in DuckDB match in any case."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

NUMBER = {"CHARTEVENTS": "valuenum", "OUTPUTEVENTS": "value", "LABEVENTS": "valuenum"}
MARKED_WRONG = {"CHARTEVENTS": "error", "OUTPUTEVENTS": "iserror", "LABEVENTS": "NULL"}
BEFORE = 24
"""Hours before a stay from which laboratory values are known on arrival."""


def read(path: Path) -> str:
    """A file as a relation of texts; types are cast where they are used, and what cannot be is NULL."""
    quoted = str(path).replace("'", "''")
    return (
        f"read_csv('{quoted}', header = true, all_varchar = true, delim = ',', quote = '\"', escape = '\"')"
    )


def labels(path: Path) -> str:
    """What the dictionaries say of each item."""
    return f"SELECT itemid::INTEGER, label FROM {read(path)} WHERE label IS NOT NULL"


def stays(paths: Mapping[str, Path], *, adult: int, oldest: float) -> str:
    """Stays of adults with their patient's age, their hours, and when the patient's earlier stays end."""
    return f"""
    CREATE TABLE stays AS
    WITH joined AS (
        SELECT stay.icustay_id::INTEGER AS icustay_id, stay.subject_id::INTEGER AS subject_id,
               stay.intime::TIMESTAMP AS intime, stay.outtime::TIMESTAMP AS outtime,
               date_diff('day', patient.dob::TIMESTAMP, stay.intime::TIMESTAMP) / 365.25 AS years
        FROM {read(paths["ICUSTAYS"])} AS stay
        JOIN {read(paths["PATIENTS"])} AS patient USING (subject_id)
        WHERE stay.outtime IS NOT NULL
    )
    SELECT icustay_id, subject_id, intime, outtime,
           CASE WHEN years > 89 THEN {oldest} ELSE years END AS age,
           ceil(date_diff('second', intime, outtime) / 3600.0)::INTEGER AS hours,
           max(outtime) OVER (PARTITION BY subject_id ORDER BY intime, icustay_id
                              ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS covered_until
    FROM joined WHERE years >= {adult} AND outtime > intime
    """


def empty_records() -> str:
    """Where records are counted, and where their hourly values go."""
    return """
    CREATE TABLE records (feature VARCHAR, itemid INTEGER, read BIGINT, marked_wrong BIGINT, no_number BIGINT,
                          other_unit BIGINT, out_of_range BIGINT, outside_of_stay BIGINT, used BIGINT);
    CREATE TABLE hourly (icustay_id INTEGER, hour INTEGER, feature VARCHAR, value DOUBLE)
    """


def events(table: str, path: Path) -> str:
    """The records of wanted items, each with the first reason to leave it out, if there is one.

    Laboratory records know no stay: they belong to that of the same patient at the time, and to one that
    begins within a day, where they are what is known on arrival (their hours are negative). A record of two
    stays is there twice, and `first` in one of them.
    """
    laboratory = table == "LABEVENTS"
    joined = (
        "stays.subject_id = event.subject_id AND "
        f"charttime BETWEEN intime - INTERVAL {BEFORE} HOUR AND outtime"
        if laboratory
        else "stays.icustay_id = event.icustay_id AND charttime BETWEEN intime AND outtime"
    )
    first = "covered_until IS NULL OR charttime > covered_until" if laboratory else "true"
    stay = "NULL::INTEGER" if laboratory else "TRY_CAST(icustay_id AS INTEGER)"
    return f"""
    CREATE TABLE events AS
    WITH event AS (
        SELECT itemid::INTEGER AS itemid, {stay} AS icustay_id, subject_id::INTEGER AS subject_id,
               TRY_CAST(charttime AS TIMESTAMP) AS charttime,
               TRY_CAST({NUMBER[table]} AS DOUBLE) AS number, lower(trim(valueuom)) AS unit,
               coalesce(TRY_CAST({MARKED_WRONG[table]} AS INTEGER), 0) <> 0 AS marked
        FROM {read(path)}
        WHERE itemid IN (SELECT itemid::VARCHAR FROM items WHERE source = '{table}')
    )
    SELECT feature, reduction, event.itemid, stays.icustay_id,
           floor(date_diff('second', intime, charttime) / 3600.0)::INTEGER AS hour, number * factor AS value,
           CASE WHEN marked THEN 'marked_wrong'
                WHEN number IS NULL THEN 'no_number'
                WHEN unit <> '' AND NOT list_contains(string_split(units, '|'), unit) THEN 'other_unit'
                WHEN number * factor NOT BETWEEN low AND high THEN 'out_of_range'
                WHEN stays.icustay_id IS NULL THEN 'outside_of_stay'
                ELSE 'used' END AS verdict,
           {first} AS first
    FROM event JOIN items ON items.itemid = event.itemid AND items.source = '{table}'
    LEFT JOIN stays ON {joined}
    """


def counted(table: str = "events", whose: str = "first") -> str:
    """How many records of each item were left out, and why; each counts once, also if it is of two stays."""
    kinds = ("marked_wrong", "no_number", "other_unit", "out_of_range", "outside_of_stay", "used")
    counts = ", ".join(f"count(*) FILTER (verdict = '{kind}')" for kind in kinds)
    return f"""
    INSERT INTO records SELECT feature, itemid, count(*), {counts} FROM {table} WHERE {whose} GROUP BY ALL
    """


def hourly() -> str:
    """One value for each feature and hour in which it was recorded."""
    return """
    INSERT INTO hourly
    SELECT icustay_id, hour, feature,
           CASE WHEN any_value(reduction) = 'sum' THEN sum(value) ELSE avg(value) END
    FROM events WHERE verdict = 'used' GROUP BY icustay_id, hour, feature
    """


def inputs(paths: Mapping[str, Path]) -> str:
    """What was given when, each record with the first reason to leave it out, if there is one.

    Charted at a time (carevue), or from a time to another (metavision). Orders that were rewritten were not
    given; a carevue record without amount and rate says that a drip was stopped. Any dose of a vasopressor
    counts; of fluids only volumes do.
    """
    return f"""
    CREATE TABLE inputs AS
    WITH record AS (
        SELECT itemid::INTEGER AS itemid, TRY_CAST(icustay_id AS INTEGER) AS icustay_id,
               TRY_CAST(charttime AS TIMESTAMP) AS starttime, TRY_CAST(charttime AS TIMESTAMP) AS endtime,
               TRY_CAST(amount AS DOUBLE) AS amount, TRY_CAST(rate AS DOUBLE) AS rate, amountuom,
               false AS rewritten
        FROM {read(paths["INPUTEVENTS_CV"])}
        WHERE itemid IN (SELECT itemid::VARCHAR FROM given)
        UNION ALL
        SELECT itemid::INTEGER, TRY_CAST(icustay_id AS INTEGER),
               TRY_CAST(starttime AS TIMESTAMP), TRY_CAST(endtime AS TIMESTAMP),
               TRY_CAST(amount AS DOUBLE), NULL, amountuom,
               lower(coalesce(statusdescription, '')) = 'rewritten'
        FROM {read(paths["INPUTEVENTS_MV"])}
        WHERE itemid IN (SELECT itemid::VARCHAR FROM given)
    ),
    placed AS (
        SELECT feature, record.itemid, stays.icustay_id, hours, rewritten, rate,
               lower(trim(amountuom)) AS unit, amount * CASE WHEN unit = 'l' THEN 1000 ELSE 1 END AS amount,
               date_diff('second', intime, starttime) / 3600.0 AS first,
               date_diff('second', intime, endtime) / 3600.0 AS last,
               starttime, endtime
        FROM record JOIN given USING (itemid) LEFT JOIN stays ON stays.icustay_id = record.icustay_id
    )
    SELECT feature, itemid, icustay_id, amount, first, last, hours,
           CASE WHEN rewritten THEN 'marked_wrong'
                WHEN NOT (coalesce(amount, 0) > 0 OR (feature = 'vasopressor' AND coalesce(rate, 0) > 0))
                     THEN 'no_number'
                WHEN feature = 'fluid' AND coalesce(unit, '') NOT IN ('ml', 'cc', 'l') THEN 'other_unit'
                WHEN starttime IS NULL OR endtime IS NULL OR endtime < starttime THEN 'out_of_range'
                WHEN icustay_id IS NULL OR floor(first) >= hours OR last < 0 THEN 'outside_of_stay'
                ELSE 'used' END AS verdict
    FROM placed
    """


def actions(fluid_ml: float) -> str:
    """Hours of a stay with an action: a vasopressor, or so much fluid; an infusion counts by the hour."""
    return f"""
    CREATE TABLE actions AS
    WITH spread AS (
        SELECT icustay_id, feature, hour,
               CASE WHEN last <= first THEN amount
                    ELSE amount * (least(last, hour + 1) - greatest(first, hour)) / (last - first)
               END AS amount
        FROM inputs, unnest(generate_series(floor(first)::INTEGER,
             greatest(floor(first), ceil(last) - 1)::INTEGER)) AS series(hour)
        WHERE verdict = 'used' AND hour >= 0 AND hour < hours
    )
    SELECT icustay_id, hour FROM spread GROUP BY icustay_id, hour
    HAVING bool_or(feature = 'vasopressor')
        OR coalesce(sum(amount) FILTER (feature = 'fluid'), 0) >= {fluid_ml}
    """


def hours(features: Sequence[str]) -> str:
    """Every hour of every stay, the latest known value of each feature, and whether there was an action."""
    pivoted = ",\n".join(f"max(value) FILTER (feature = '{name}') AS \"{name}\"" for name in features)
    filled = ",\n".join(f'last_value("{name}" IGNORE NULLS) OVER before AS "{name}"' for name in features)
    known = " AND ".join(f'"{name}" IS NOT NULL' for name in features)
    return f"""
    WITH grid AS (
        SELECT icustay_id, subject_id, age, hour::INTEGER AS hour
        FROM stays, unnest(generate_series({-BEFORE}, hours - 1)) AS series(hour)
    ),
    wide AS (SELECT icustay_id, hour, {pivoted} FROM hourly GROUP BY icustay_id, hour),
    filled AS (
        SELECT grid.icustay_id, subject_id, grid.hour, age, {filled}
        FROM grid LEFT JOIN wide ON wide.icustay_id = grid.icustay_id AND wide.hour = grid.hour
        WINDOW before AS (PARTITION BY grid.icustay_id ORDER BY grid.hour)
    )
    SELECT filled.*, (actions.hour IS NOT NULL)::BIGINT AS action
    FROM filled LEFT JOIN actions ON actions.icustay_id = filled.icustay_id AND actions.hour = filled.hour
    WHERE filled.hour >= 0 AND {known}
    ORDER BY subject_id, filled.icustay_id, filled.hour
    """
