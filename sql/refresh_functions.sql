-- What models are asked for, what it costs, and the procedure that does all that is pending.

CREATE FUNCTION @extschema@.rag_usage(collection text)
RETURNS TABLE (
    step text, calls bigint, prompt_tokens bigint, completion_tokens bigint, cost numeric, failed bigint, repaired bigint)
LANGUAGE c STABLE COST 1000 ROWS 5 AS 'MODULE_PATHNAME', 'rag_usage_wrapper';

CREATE FUNCTION @extschema@.rag_estimate(collection text)
RETURNS TABLE (
    step text, level int, calls bigint, calls_high bigint, prompt_tokens bigint, completion_tokens bigint, cost numeric)
LANGUAGE c STABLE COST 100000 ROWS 7 AS 'MODULE_PATHNAME', 'rag_estimate_wrapper';

CREATE FUNCTION @extschema@.rag_health(collection text)
RETURNS TABLE (part text, state text, detail text)
LANGUAGE c VOLATILE COST 100000 ROWS 10 AS 'MODULE_PATHNAME', 'rag_health_wrapper';

CREATE FUNCTION @extschema@.rag_ask(
    collection text,
    question text,
    mode text DEFAULT 'auto',
    level int DEFAULT NULL,
    k int DEFAULT NULL,
    filter jsonb DEFAULT '{}',
    documents bigint[] DEFAULT NULL,
    dynamic boolean DEFAULT false,
    max_hops int DEFAULT NULL,
    events boolean DEFAULT false)
RETURNS jsonb LANGUAGE c VOLATILE COST 100000 AS 'MODULE_PATHNAME', 'rag_ask_wrapper';

CREATE FUNCTION @extschema@.rag_judge(
    collection text,
    questions text[],
    first jsonb DEFAULT '{"mode": "global"}',
    second jsonb DEFAULT '{"mode": "plain"}',
    criteria text[] DEFAULT '{comprehensiveness,diversity,empowerment,directness}',
    repeats int DEFAULT 1,
    filter jsonb DEFAULT '{}',
    documents bigint[] DEFAULT NULL)
RETURNS TABLE (
    criterion text, questions bigint, first_wins bigint, second_wins bigint, ties bigint, win_rate float8, agreement float8,
    calls bigint, failed bigint)
LANGUAGE c VOLATILE COST 1000000 ROWS 4 AS 'MODULE_PATHNAME', 'rag_judge_wrapper';

CREATE FUNCTION @extschema@.rag_questions(
    collection text,
    personas int DEFAULT 5,
    tasks int DEFAULT 5,
    questions int DEFAULT 5,
    filter jsonb DEFAULT '{}',
    documents bigint[] DEFAULT NULL)
RETURNS TABLE (persona text, task text, question text)
LANGUAGE c VOLATILE COST 1000000 ROWS 125 AS 'MODULE_PATHNAME', 'rag_questions_wrapper';

CREATE FUNCTION @extschema@._refresh_start(collection text, max_calls bigint, steps text[])
RETURNS void LANGUAGE c VOLATILE AS 'MODULE_PATHNAME', '_refresh_start_wrapper';

CREATE FUNCTION @extschema@._refresh_round(collection text)
RETURNS boolean LANGUAGE c VOLATILE AS 'MODULE_PATHNAME', '_refresh_round_wrapper';

-- No SET clause and no SECURITY DEFINER: with either it could not commit. All names in it are qualified.
CREATE PROCEDURE @extschema@.rag_refresh(
    collection text,
    max_calls bigint DEFAULT NULL,
    steps text[] DEFAULT NULL)
LANGUAGE plpgsql AS $$
DECLARE
    more pg_catalog.bool;
BEGIN
    PERFORM @extschema@._refresh_start(collection, max_calls, steps);
    LOOP
        more := @extschema@._refresh_round(collection);
        COMMIT;
        EXIT WHEN NOT more;
    END LOOP;
END
$$;
