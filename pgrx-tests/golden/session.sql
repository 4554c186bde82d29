-- A small session: documents, the tree, the graph, and the searches over them.
CREATE EXTENSION pg_graphrag CASCADE;
SELECT rag_create('kb');
SET hnsw.iterative_scan = strict_order;
INSERT INTO kb.document (source_key, title, body, metadata) VALUES
    ('ferry', 'The ferry', 'The Night Ferry leaves Port Ellen at 22:00. Isla Brodie commands the Night Ferry.', '{"lang": "en"}'),
    ('depot', 'The depot', 'Glen Depot stores grain. The Night Ferry carries grain from Glen Depot.', '{"lang": "en"}'),
    ('crane', 'The crane', 'Port Ellen has one crane. Isla Brodie asked the Harbour Office for a second crane.', '{"lang": "en"}'),
    ('lager', 'Das Lager', 'Im Lager von Glen Depot liegt Getreide. Das Lager ist trocken.', '{"lang": "de"}');
SELECT rag_add('kb', E'# Winter\n\nStorms close Port Ellen in January.\n', source_key => 'winter', metadata => '{"lang": "en"}');
SELECT step, total, done, pending, failed, built_at IS NOT NULL AS built, model FROM rag_status('kb');

-- The tree of summaries.
SELECT * FROM raptor_build('kb', cluster_size => 3);
SELECT level, round(score::numeric, 3) AS score, text, document_ids
FROM raptor_search('kb', 'what does the ferry carry?', k => 3);
SELECT level, round(score::numeric, 3) AS score, text FROM raptor_search('kb', 'Getreide', filter => '{"lang": "de"}');

-- The graph.
SELECT * FROM graph_extract('kb');
SELECT graph_add('kb', 'Port Ellen', 'belongs to', 'Islay');
SELECT * FROM graph_communities('kb');
SELECT * FROM graph_summarize('kb');
SELECT level, round(score::numeric, 3) AS score, title, summary, rating, size FROM graph_global('kb', 'what happens at the harbour?');
SELECT hop, source, predicate, target, weight, quote, document_ids FROM graph_local('kb', 'night ferry', hops => 2);
SELECT * FROM graph_local('kb', 'night ferry', hops => 2, max_edges => 1);
SELECT * FROM graph_local('kb', 'Atlantis');

-- A document goes, and all that rests on it.
DELETE FROM kb.document WHERE source_key = 'depot';
SELECT hop, source, predicate, target FROM graph_local('kb', 'night ferry');
SELECT step, total, done, pending FROM rag_status('kb');

-- Many documents in one statement are recorded, and cut by the next build function.
SELECT rag_alter('kb', '{"inline_rows": 2}');
INSERT INTO kb.document (body) SELECT 'Berth ' || n || ' is free.' FROM generate_series(1, 3) n;
SELECT step, total, done, pending FROM rag_status('kb') WHERE step IN ('chunk', 'extract');
SELECT rag_alter('kb', '{"leaf_tokens": 100}');
SELECT * FROM raptor_build('kb');

SELECT collection, dimensions, embedder, summarizer, extractor, language, partition_by FROM rag_collections;
SELECT rag_drop('kb');
SELECT count(*) FROM rag_collections;
