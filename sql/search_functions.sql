-- Several ways to find passages, fused.

CREATE FUNCTION @extschema@.rag_search(
    collection text,
    query text,
    k int DEFAULT 10,
    filter jsonb DEFAULT '{}',
    methods text[] DEFAULT NULL,
    expand text DEFAULT 'leaf',
    documents bigint[] DEFAULT NULL,
    weights float8[] DEFAULT NULL,
    fusion text DEFAULT 'rrf',
    max_tokens int DEFAULT NULL,
    candidates int DEFAULT NULL,
    rewrite text[] DEFAULT '{}',
    rerank int DEFAULT NULL,
    query_vector vector DEFAULT NULL,
    repeats float8 DEFAULT 1)
RETURNS TABLE (
    node_id bigint, level int, score float8, dense_rank int, lexical_rank int, tree_rank int, graph_rank int, text text,
    token_count int, section_path text[], metadata jsonb, document_ids bigint[], documents bigint, block_id bigint,
    start_char int, end_char int, matched text, rerank_score float8)
LANGUAGE c VOLATILE COST 1000 ROWS 10 AS 'MODULE_PATHNAME', 'rag_search_wrapper';

CREATE FUNCTION @extschema@.rag_context(
    collection text,
    query text,
    max_tokens int DEFAULT 4000,
    filter jsonb DEFAULT '{}',
    methods text[] DEFAULT NULL,
    expand text DEFAULT 'leaf',
    graph_share float8 DEFAULT 0.2,
    documents bigint[] DEFAULT NULL,
    rewrite text[] DEFAULT '{}',
    rerank int DEFAULT NULL,
    left_out boolean DEFAULT false)
RETURNS TABLE (
    citation text, kind text, id bigint, text text, token_count int, title text, source_key text, section_path text[], start_char int,
    end_char int, document_ids bigint[])
LANGUAGE c VOLATILE COST 1000 ROWS 20 AS 'MODULE_PATHNAME', 'rag_context_wrapper';

CREATE FUNCTION @extschema@.rag_explain(
    collection text,
    query text,
    k int DEFAULT 10,
    filter jsonb DEFAULT '{}',
    methods text[] DEFAULT NULL,
    expand text DEFAULT 'leaf',
    documents bigint[] DEFAULT NULL,
    weights float8[] DEFAULT NULL,
    fusion text DEFAULT 'rrf',
    max_tokens int DEFAULT NULL,
    candidates int DEFAULT NULL,
    rewrite text[] DEFAULT '{}',
    rerank int DEFAULT NULL,
    query_vector vector DEFAULT NULL,
    repeats float8 DEFAULT 1)
RETURNS TABLE (
    node_id bigint, rank int, score float8, dense_rank int, dense_score float8, lexical_rank int, lexical_score float8,
    tree_rank int, tree_score float8, graph_rank int, graph_score float8, rerank_score float8, outcome text, text text)
LANGUAGE c VOLATILE COST 1000 ROWS 100 AS 'MODULE_PATHNAME', 'rag_explain_wrapper';

-- How good they are.

CREATE FUNCTION @extschema@.rag_evaluate(
    collection text,
    golden regclass,
    k int DEFAULT 10,
    methods text[] DEFAULT '{dense,lexical,fused,graph,dense+graph}',
    filter jsonb DEFAULT '{}',
    documents bigint[] DEFAULT NULL,
    seed bigint DEFAULT 0)
RETURNS TABLE (
    method text, k int, questions bigint, recall float8, hit float8, all_found float8, "precision" float8, mrr float8,
    ndcg float8, difference float8, difference_low float8, difference_high float8, milliseconds float8)
LANGUAGE c VOLATILE COST 100000 ROWS 5 AS 'MODULE_PATHNAME', 'rag_evaluate_wrapper';

CREATE FUNCTION @extschema@.rag_evaluate_detail(
    collection text,
    golden regclass,
    k int DEFAULT 10,
    methods text[] DEFAULT '{dense,lexical,fused,graph,dense+graph}',
    filter jsonb DEFAULT '{}',
    documents bigint[] DEFAULT NULL)
RETURNS TABLE (
    question text, method text, recall float8, hit float8, all_found float8, "precision" float8, mrr float8, ndcg float8,
    found text[], missed text[])
LANGUAGE c VOLATILE COST 100000 ROWS 100 AS 'MODULE_PATHNAME', 'rag_evaluate_detail_wrapper';

CREATE FUNCTION @extschema@.rag_evaluate_answers(
    collection text,
    golden regclass,
    modes text[] DEFAULT '{plain,local}',
    filter jsonb DEFAULT '{}',
    documents bigint[] DEFAULT NULL)
RETURNS TABLE (
    question text, mode text, context_relevance float8, groundedness float8, answer_relevance float8, correctness float8,
    answer text, unsupported text[], calls bigint, failed bigint)
LANGUAGE c VOLATILE COST 1000000 ROWS 100 AS 'MODULE_PATHNAME', 'rag_evaluate_answers_wrapper';
