-- The session of `make demo`, over the corpus in this folder. The documents stand in kb.document already.
\set QUIET on
\pset format wrapped
\pset columns 118
\pset footer off
\pset linestyle unicode
\pset border 1

\echo
\echo '=== 20 documents of a town that runs payments, a cold chain, a waterworks and a staff office ==='
\echo 'They were loaded by COPY into an ordinary table; a trigger cut them into blocks and leaves and embedded those.'
\echo
SELECT metadata ->> 'folder' AS folder, count(DISTINCT document_id) AS documents, count(*) AS leaves, sum(token_count) AS tokens
FROM kb.node GROUP BY 1 ORDER BY 1;

\echo '=== 1. raptor_build: a tree of summaries, one root for each folder ==='
\echo
SELECT * FROM raptor_build('kb');

\echo '=== 2. raptor_search: a question whose answer no single passage holds ==='
\echo 'One document knows the code, another what the supplier does at night. Leaves and summaries (level 1 and up) are ranked in one pool.'
\echo
SELECT level, round(score::numeric, 2) AS score, documents AS docs, text
FROM raptor_search('kb', 'HLD-409 nearly always occurs in the small hours. What happens at Brightline Data every night, and what does a device get then?', 2);

\echo '=== 3. graph_extract: who does what to whom, with the sentence that says so ==='
\echo
SELECT * FROM graph_extract('kb');

\echo '=== 4. graph_communities and graph_summarize: the themes, and a report on each ==='
\echo
SELECT level, communities, largest, round(modularity::numeric, 2) AS modularity FROM graph_communities('kb');
SELECT * FROM graph_summarize('kb');
SELECT level, size, title, rating FROM kb.community WHERE size > 10 ORDER BY size DESC;

\echo '--- graph_global: a question about a theme, answered by the report of a community ---'
\echo
SELECT round(score::numeric, 2) AS score, title, summary
FROM graph_global('kb', 'What can go wrong between Fenwick Depot, Vardo Terminal and the ships of the Outer Isles?', 1);

\echo '=== 5. graph_local: the neighbourhood of one entity, in both directions ==='
\echo
SELECT source, predicate, target, quote
FROM graph_local('kb', 'Fenwick Depot') WHERE predicate <> 'related_to' ORDER BY source COLLATE "C", target COLLATE "C" LIMIT 8;

\echo '=== And because it is all tables: leaves and summaries, your own rows and a filter in one statement ==='
\echo
SET hnsw.iterative_scan = strict_order;
SELECT n.level, d.source_key, left(n.text, 60) AS text
FROM   kb.node n
LEFT   JOIN kb.document d ON d.id = n.document_id
WHERE  n.metadata @> '{"folder": "water"}'
ORDER  BY n.embedding <=> (SELECT rag_embed('kb', 'why did nobody see the cloudy water?'))
LIMIT  4;

SELECT step, total, done, pending, model FROM rag_status('kb');
