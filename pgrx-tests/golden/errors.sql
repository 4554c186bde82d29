-- The most common mistakes, and what is said about them.
CREATE EXTENSION pg_graphrag CASCADE;
SET hnsw.iterative_scan = strict_order;
SELECT rag_create('kb', dimensions => 8);
SELECT rag_add('kb', 'Port Ellen has one crane.');

-- Collections.
SELECT * FROM raptor_search('kx', 'crane');
\echo :LAST_ERROR_SQLSTATE
SELECT * FROM raptor_search(NULL, 'crane');
\echo :LAST_ERROR_SQLSTATE
SELECT rag_create('kb');
\echo :LAST_ERROR_SQLSTATE
SELECT rag_create('public');
\echo :LAST_ERROR_SQLSTATE
SELECT rag_create('');
\echo :LAST_ERROR_SQLSTATE
SELECT rag_create('pg_mine');
\echo :LAST_ERROR_SQLSTATE
SELECT rag_create('k2', dimensions => 0);
\echo :LAST_ERROR_SQLSTATE
SELECT rag_create('k2', embedder => 'openai');
\echo :LAST_ERROR_SQLSTATE
SELECT rag_create('k2', answerer => 'gpt');
\echo :LAST_ERROR_SQLSTATE
SELECT rag_create('k2', language => 'klingon');
\echo :LAST_ERROR_SQLSTATE
SELECT rag_create('k2', settings => '{"leaf_token": 100}');
\echo :LAST_ERROR_SQLSTATE
SELECT rag_create('k2', settings => '{"leaf_tokens": 1}');
\echo :LAST_ERROR_SQLSTATE
SELECT rag_create('k2', settings => '{"leaf_tokens": 30, "leaf_overlap": 30}');
\echo :LAST_ERROR_SQLSTATE
SELECT rag_create('k2', partition_by => '{tenant,NULL}');
\echo :LAST_ERROR_SQLSTATE
SELECT rag_alter('kb', '{"dimensions": 16}');
\echo :LAST_ERROR_SQLSTATE
SELECT rag_alter('kb', '[]');
\echo :LAST_ERROR_SQLSTATE
CREATE VIEW kb.mine AS SELECT 1 AS one;
SELECT rag_drop('kb');
\echo :LAST_ERROR_SQLSTATE
DROP VIEW kb.mine;
CREATE VIEW report AS SELECT title FROM kb.document;
SELECT rag_drop('kb');
\echo :LAST_ERROR_SQLSTATE
DROP EXTENSION pg_graphrag;
\echo :LAST_ERROR_SQLSTATE

-- Documents.
SELECT rag_add('kb', NULL);
\echo :LAST_ERROR_SQLSTATE
SELECT rag_add('kb', 'text', metadata => '[1]');
\echo :LAST_ERROR_SQLSTATE
SELECT rag_add('kb', 'text', format => 'pdf');
\echo :LAST_ERROR_SQLSTATE
SELECT rag_add('kb', '{"a": ', format => 'json');
\echo :LAST_ERROR_SQLSTATE
-- The rows that PostgreSQL shows hold the time.
\set VERBOSITY terse
INSERT INTO kb.document (body) VALUES (NULL);
\echo :LAST_ERROR_SQLSTATE
INSERT INTO kb.document (body, metadata) VALUES ('text', '3');
\echo :LAST_ERROR_SQLSTATE
\set VERBOSITY default
SELECT * FROM rag_chunk('text', leaf_tokens => 20, overlap => 20);
\echo :LAST_ERROR_SQLSTATE
SELECT * FROM rag_chunk('text', format => 'html');
\echo :LAST_ERROR_SQLSTATE

-- The tree.
SELECT * FROM raptor_build('kb', method => 'kmeans');
\echo :LAST_ERROR_SQLSTATE
SELECT * FROM raptor_build('kb', cluster_size => 1);
\echo :LAST_ERROR_SQLSTATE
SELECT * FROM raptor_search('kb', 'crane', mode => 'tree');
\echo :LAST_ERROR_SQLSTATE
SELECT * FROM raptor_search('kb', 'crane', k => -1);
\echo :LAST_ERROR_SQLSTATE
SELECT * FROM raptor_search('kb', 'crane', filter => '["en"]');
\echo :LAST_ERROR_SQLSTATE
SELECT * FROM raptor_search('kb', '[1,2,3]'::vector);
\echo :LAST_ERROR_SQLSTATE
SELECT * FROM raptor_search('kb', NULL::text);
\echo :LAST_ERROR_SQLSTATE
SELECT * FROM raptor_search('kb', 'crane', max_tokens => 0);
\echo :LAST_ERROR_SQLSTATE

-- The graph.
SELECT * FROM graph_communities('kb', algorithm => 'louvain');
\echo :LAST_ERROR_SQLSTATE
SELECT graph_add('kb', 'Port Ellen', '', 'crane');
\echo :LAST_ERROR_SQLSTATE
SELECT graph_add('kb', 'Port Ellen', 'has', 'crane', document_id => 999);
\echo :LAST_ERROR_SQLSTATE
SELECT graph_add('kb', 'Port Ellen', 'has', 'crane', document_id => 1, quote => 'two cranes');
\echo :LAST_ERROR_SQLSTATE
SELECT graph_add('kb', 'Port Ellen', 'has', 'crane', quote => 'one crane');
\echo :LAST_ERROR_SQLSTATE
SELECT graph_add('kb', 'Port Ellen', 'has', 'crane', document_id => 1, weight => 2);
\echo :LAST_ERROR_SQLSTATE
SELECT graph_add('kb', 'Port Ellen', 'has', 'crane', weight => 'NaN');
\echo :LAST_ERROR_SQLSTATE
SELECT * FROM graph_local('kb', 'Port Ellen', hops => 0);
\echo :LAST_ERROR_SQLSTATE
SELECT * FROM graph_global('kb', 'crane', level => -1);
\echo :LAST_ERROR_SQLSTATE

-- Models.
SELECT rag_create('k3', dimensions => 8, summarizer => 'server:nowhere', extractor => 'function:nowhere.extract');
INSERT INTO k3.document (body) VALUES ('Port Ellen has one crane.'), ('The crane lifts five tonnes.');
SELECT * FROM raptor_build('k3');
\echo :LAST_ERROR_SQLSTATE
SELECT * FROM graph_extract('k3');
\echo :LAST_ERROR_SQLSTATE
SELECT rag_alter('k3', '{"extractor": "function:lower"}');
SELECT * FROM graph_extract('k3');
\echo :LAST_ERROR_SQLSTATE
SELECT rag_alter('k3', '{"answerer": "queue"}');
\echo :LAST_ERROR_SQLSTATE
SELECT rag_alter('k3', '{"answer_prompt": ""}');
\echo :LAST_ERROR_SQLSTATE
SELECT rag_ask('kb', 'How many cranes?', 'plain');
\echo :LAST_ERROR_SQLSTATE
SELECT rag_create('k4', dimensions => 8, embedder => 'queue');
SELECT * FROM raptor_search('k4', 'crane');
\echo :LAST_ERROR_SQLSTATE
CALL rag_refresh('kb', steps => '{all}');
\echo :LAST_ERROR_SQLSTATE
CALL rag_refresh('kb', max_calls => 0);
\echo :LAST_ERROR_SQLSTATE
BEGIN;
CALL rag_refresh('kb');
\echo :LAST_ERROR_SQLSTATE
ROLLBACK;
CREATE SERVER gpt FOREIGN DATA WRAPPER graphrag_model OPTIONS (chat_model 'gpt');
\echo :LAST_ERROR_SQLSTATE
CREATE SERVER gpt FOREIGN DATA WRAPPER graphrag_model OPTIONS (base_url 'api.openai.com/v1', chat_model 'gpt');
\echo :LAST_ERROR_SQLSTATE
CREATE SERVER gpt FOREIGN DATA WRAPPER graphrag_model OPTIONS (base_url 'https://api.openai.com/v1', price_in 'cheap');
\echo :LAST_ERROR_SQLSTATE
CREATE SERVER gpt FOREIGN DATA WRAPPER graphrag_model OPTIONS (base_url 'https://api.openai.com/v1', embedding_model 'e');
SELECT rag_alter('k3', '{"summarizer": "server:gpt"}');
SELECT * FROM raptor_build('k3');
\echo :LAST_ERROR_SQLSTATE
CREATE USER MAPPING FOR PUBLIC SERVER gpt OPTIONS (password 'secret');
\echo :LAST_ERROR_SQLSTATE
CREATE FOREIGN TABLE chat (answer text) SERVER gpt;
\echo :LAST_ERROR_SQLSTATE

-- Rights, memory, a read-only transaction.
CREATE ROLE golden_reader;
SET ROLE golden_reader;
SELECT * FROM raptor_search('kb', 'crane');
\echo :LAST_ERROR_SQLSTATE
RESET ROLE;
GRANT USAGE ON SCHEMA kb TO golden_reader;
SET ROLE golden_reader;
SELECT * FROM raptor_search('kb', 'crane');
\echo :LAST_ERROR_SQLSTATE
SELECT * FROM raptor_build('kb');
\echo :LAST_ERROR_SQLSTATE
SELECT rag_create('mine');
\echo :LAST_ERROR_SQLSTATE
RESET ROLE;
SELECT rag_create('big', dimensions => 2000);
INSERT INTO big.document (body) SELECT 'Berth ' || n FROM generate_series(1, 300) n;
SET graphrag.build_memory = '2MB';
SELECT * FROM raptor_build('big');
\echo :LAST_ERROR_SQLSTATE
SET graphrag.nonsense = 1;
\echo :LAST_ERROR_SQLSTATE
RESET graphrag.build_memory;
BEGIN READ ONLY;
SELECT * FROM raptor_build('kb');
\echo :LAST_ERROR_SQLSTATE
ROLLBACK;
