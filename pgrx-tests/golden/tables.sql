-- The tables of a collection as \d shows them.
CREATE EXTENSION pg_graphrag CASCADE;
SET hnsw.iterative_scan = strict_order;
SELECT rag_create('kb', partition_by => '{tenant}');
SELECT relname AS table, obj_description(oid) AS description
FROM pg_class WHERE relnamespace = 'kb'::regnamespace AND relkind = 'r' ORDER BY 1;
\d kb.setting
\d kb.document
\d kb.block
\d kb.node
\d kb.entity
\d kb.relation
\d kb.evidence
\d kb.community
\d kb.model_call
\d kb.model_call_source
\d kb.change
SELECT * FROM kb.setting ORDER BY key;
-- The index by vector is made by the first function that builds.
SELECT rag_add('kb', 'One document.', metadata => '{"tenant": "acme"}');
SELECT * FROM raptor_build('kb');
SELECT indexdef FROM pg_indexes WHERE schemaname = 'kb' AND indexname = 'node_embedding';
