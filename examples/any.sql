-- The session of `make demo CORPUS=folder`, over documents of your own. They stand in kb.document already.
\set QUIET on
\pset format wrapped
\pset columns 118
\pset footer off
\pset linestyle unicode
\pset border 1

\echo
\echo '=== Your documents, cut into leaves and embedded ==='
\echo
SELECT count(*) AS documents, pg_size_pretty(sum(length(body))) AS characters FROM kb.document;

\echo '=== raptor_build: a tree of summaries ==='
\echo
SELECT * FROM raptor_build('kb');

\echo '=== graph_extract, graph_communities, graph_summarize: who does what to whom, and the themes ==='
\echo
SELECT * FROM graph_extract('kb');
SELECT level, communities, largest, round(modularity::numeric, 2) AS modularity FROM graph_communities('kb');
SELECT * FROM graph_summarize('kb');
SELECT size, title, left(summary, 200) AS summary FROM kb.community WHERE size > 1 ORDER BY size DESC, id LIMIT 3;

\echo '=== The best connected entities ==='
\echo
SELECT name, type, degree, source_count AS documents FROM kb.entity ORDER BY degree DESC, key LIMIT 8;
SELECT name AS best FROM kb.entity ORDER BY degree DESC, key LIMIT 1
\gset
\echo '--- graph_local on the first of them ---'
\echo
SET client_min_messages = warning;
SELECT source, predicate, target, weight, quote FROM graph_local('kb', :'best', max_edges => 6);

\echo '=== Ask it ==='
\echo 'SELECT level, score, text FROM raptor_search(''kb'', ''your question'', 5);'
\echo 'SELECT score, title, summary FROM graph_global(''kb'', ''your question'', 3);'
\echo 'SELECT * FROM graph_local(''kb'', ''a name'');'
