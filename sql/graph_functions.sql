-- The knowledge graph.

CREATE FUNCTION @extschema@.graph_extract(collection text, again boolean DEFAULT false)
RETURNS TABLE (blocks bigint, entities bigint, relations bigint, failed bigint, calls bigint, reasons jsonb)
LANGUAGE c VOLATILE COST 100000 ROWS 1 AS 'MODULE_PATHNAME', 'graph_extract_wrapper';

CREATE FUNCTION @extschema@.graph_add(
    collection text,
    subject text,
    predicate text,
    object text,
    description text DEFAULT NULL,
    document_id bigint DEFAULT NULL,
    properties jsonb DEFAULT '{}',
    quote text DEFAULT NULL,
    weight float8 DEFAULT NULL)
RETURNS bigint LANGUAGE c VOLATILE COST 1000 AS 'MODULE_PATHNAME', 'graph_add_wrapper';

CREATE FUNCTION @extschema@.graph_import(
    collection text, payload text, format text DEFAULT 'auto', block_id bigint DEFAULT NULL)
RETURNS TABLE (entities bigint, relations bigint, claims bigint, dropped bigint, reasons jsonb)
LANGUAGE c VOLATILE COST 100000 ROWS 1 AS 'MODULE_PATHNAME', 'graph_import_wrapper';

CREATE FUNCTION @extschema@.graph_resolve(collection text, threshold float8 DEFAULT 0.9, ask boolean DEFAULT false)
RETURNS TABLE (
    keep text, alias text, score float8, reason text, shared bigint, keep_documents bigint, alias_documents bigint,
    same boolean)
LANGUAGE c VOLATILE COST 100000 ROWS 100 AS 'MODULE_PATHNAME', 'graph_resolve_wrapper';

CREATE FUNCTION @extschema@.graph_merge(collection text, keep text, VARIADIC aliases text[])
RETURNS bigint LANGUAGE c VOLATILE COST 10000 AS 'MODULE_PATHNAME', 'graph_merge_wrapper';

CREATE FUNCTION @extschema@.graph_unmerge(collection text, alias text)
RETURNS bigint LANGUAGE c VOLATILE COST 10000 AS 'MODULE_PATHNAME', 'graph_unmerge_wrapper';

CREATE FUNCTION @extschema@.graph_bind(
    collection text,
    type text,
    source regclass,
    name text,
    key text DEFAULT NULL,
    aliases text[] DEFAULT '{}',
    edges boolean DEFAULT false)
RETURNS TABLE (entities bigint, relations bigint)
LANGUAGE c VOLATILE COST 100000 ROWS 1 AS 'MODULE_PATHNAME', 'graph_bind_wrapper';

CREATE FUNCTION @extschema@.graph_unbind(collection text, type text)
RETURNS void LANGUAGE c VOLATILE COST 10000 AS 'MODULE_PATHNAME', 'graph_unbind_wrapper';

CREATE FUNCTION @extschema@.graph_communities(
    collection text,
    algorithm text DEFAULT 'leiden',
    resolution float8 DEFAULT 1.0,
    max_size int DEFAULT 10,
    seed bigint DEFAULT 0)
RETURNS TABLE (level int, communities bigint, largest bigint, modularity float8)
LANGUAGE c VOLATILE COST 100000 ROWS 4 AS 'MODULE_PATHNAME', 'graph_communities_wrapper';

CREATE FUNCTION @extschema@.graph_summarize(collection text, level int DEFAULT NULL)
RETURNS TABLE (level int, reports bigint, failed bigint, calls bigint)
LANGUAGE c VOLATILE COST 100000 ROWS 4 AS 'MODULE_PATHNAME', 'graph_summarize_wrapper';

CREATE FUNCTION @extschema@.graph_global(
    collection text,
    query text,
    k int DEFAULT NULL,
    level int DEFAULT NULL,
    filter jsonb DEFAULT '{}',
    documents bigint[] DEFAULT NULL)
RETURNS TABLE (
    community_id bigint, level int, score float8, title text, summary text, rating float8, size int)
LANGUAGE c STABLE COST 1000 ROWS 5 AS 'MODULE_PATHNAME', 'graph_global_wrapper';

CREATE FUNCTION @extschema@.graph_local(
    collection text,
    entity text,
    hops int DEFAULT 1,
    filter jsonb DEFAULT '{}',
    max_edges int DEFAULT 100,
    documents bigint[] DEFAULT NULL)
RETURNS TABLE (
    hop int, source text, predicate text, target text, weight float8, description text, quote text, node_ids bigint[],
    document_ids bigint[])
LANGUAGE c STABLE COST 1000 ROWS 20 AS 'MODULE_PATHNAME', 'graph_local_wrapper';

CREATE FUNCTION @extschema@.graph_search(
    collection text,
    query text,
    mode text DEFAULT 'mix',
    k int DEFAULT 10,
    filter jsonb DEFAULT '{}',
    documents bigint[] DEFAULT NULL,
    max_tokens int DEFAULT NULL)
RETURNS TABLE (node_id bigint, score float8, text text, via text, token_count int, document_ids bigint[])
LANGUAGE c STABLE COST 10000 ROWS 10 AS 'MODULE_PATHNAME', 'graph_search_wrapper';
