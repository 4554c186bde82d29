COMMENT ON FUNCTION @extschema@.rag_create(text, int, text, text, text, text, text[], regconfig, jsonb) IS
'Makes a collection: schema "collection" (or an empty one that you own) with the tables for documents, leaves, summaries and the knowledge graph.
dimensions: of every vector, 1 to 16000. embedder: builtin:lsa (learned from the collection itself), builtin:hash, or a sum like server:name(1536) + builtin:lsa(384), whose vectors stand side by side; summarizer: builtin:frequency; extractor: builtin:cooccurrence; or, as the answerer, too: function:schema.name, server:name (CREATE SERVER ... FOREIGN DATA WRAPPER graphrag_model), or queue (the rows of model_call are answered by a program; not for the answerer).
partition_by: metadata keys whose values are kept apart, each with trees and communities of its own. language: text search configuration whose dictionaries make the terms of lexical search and of builtin:lsa, and whose stop words are used.
settings: block_tokens 1000, leaf_tokens 200, leaf_overlap 40, inline_rows 1000, exact_below 10000, cluster_size 8, summary_tokens 200, report_tokens 8000, prune_from 100, phrase_documents 2, edge_npmi 0.1, max_attempts 3, reranker NULL, and the system messages summarize_prompt, extract_prompt, report_prompt, answer_prompt.
Errors: 42P06 if it exists or the schema is not empty, 22023 for a wrong value, 42501 without CREATE on the database.';

COMMENT ON FUNCTION @extschema@.rag_alter(text, jsonb) IS
'Changes settings of a collection, for example ''{"leaf_tokens": 300}'': those of rag_create, and the models. With another embedder search goes on with the old vectors until CALL rag_refresh has embedded all anew.
New sizes of blocks and leaves apply when the next build function cuts the documents anew. dimensions, partition_by and language are fixed (55000).';

COMMENT ON FUNCTION @extschema@.rag_drop(text) IS
'Drops a collection with all its tables and its schema. Refuses (2BP01) while the schema holds anything else, or while a view or key elsewhere depends on a table.';

COMMENT ON FUNCTION @extschema@._collections() IS 'What the view rag_collections shows.';
COMMENT ON VIEW @extschema@.rag_collections IS
'The collections of this database whose settings you may read: name, owner, dimensions, models, language, partition keys.';

COMMENT ON FUNCTION @extschema@.rag_status(text) IS
'How far each step of a collection is: chunk counts documents, embed and tree leaves, extract blocks, communities entities, reports communities of two or more.
Columns: step, total, done, pending, failed (items whose model call failed), built_at (when the step last ran), model, calls (answered so far), waiting (calls that are pending).';

COMMENT ON FUNCTION @extschema@._document_row() IS 'Trigger: fills body_hash, partition and updated_at of a document.';
COMMENT ON FUNCTION @extschema@._document_change() IS 'Trigger: keeps blocks, leaves and what is derived from them right when documents change.';
COMMENT ON FUNCTION @extschema@._member_change() IS 'Trigger: entities and communities that go leave no membership behind.';
COMMENT ON FUNCTION @extschema@._relation_change() IS 'Trigger: keeps degrees right and marks reports stale when relations change.';
COMMENT ON FUNCTION @extschema@._name_row() IS 'Trigger: fills the folded key of an entity or a relation.';

COMMENT ON FUNCTION @extschema@.rag_add(text, text, text, text, jsonb, text) IS
'Adds a document, or replaces the one with the same source_key; answers its id. You may as well INSERT into the table document.
body: the text. metadata: a JSON object to filter by. format: text, markdown, html, csv or json; the last three are stored as Markdown
(headings kept, a row or an object becomes a section), so that offsets are those of the stored body. Errors: 22000 for a body that is not in its format.';

COMMENT ON FUNCTION @extschema@.rag_chunk(text, text, int, int, int) IS
'Shows how a text is cut: blocks of at most block_tokens, cut at section boundaries (sections under half a leaf are joined), and in each leaves of at most leaf_tokens that share about overlap tokens.
Columns: block and leaf (numbers from 0), section_path (headings, outermost first), start_char and end_char (characters of body, from 0, end excluded), token_count, text.
It holds that substr(body, start_char + 1, end_char - start_char) = text.';

COMMENT ON FUNCTION @extschema@.rag_embed(text, text) IS
'The vector of a text by the collection''s embedder, of unit length; NULL for a text without words. Use it in your own ORDER BY embedding <=> (SELECT rag_embed(...)).';

COMMENT ON FUNCTION @extschema@.rag_neighbors(text, text, int) IS
'What the collection thinks is near to a word: the terms whose vectors have the greatest cosines with it, of those that two leaves or more held when builtin:lsa learned.
word: one word, or some. k: rows at most. Columns: word (a lexeme: a word as the dictionaries of the language have it), score (the cosine). A word that was not learned has no neighbours. Errors: 55000 where the embedder has no part builtin:lsa.';

COMMENT ON FUNCTION @extschema@.raptor_build(text, text, int, int, bigint) IS
'Builds the tree of summaries anew, one root a partition, after cutting documents that wait for it, and learning where builtin:lsa is due to. Readers see the old tree until you commit; if it learns and there are over 1,000 nodes, they wait until then.
method: bisect (k-means, cut in two down to what the summarizer reads, the setting cluster_tokens; a leaf between two clusters joins both), mixture (Gaussian mixtures on principal components, as in RAPTOR, Sarthi et al. 2024), greedy (each leaf in canonical order takes its cluster_size - 1 nearest free neighbours by cosine).
max_levels: NULL goes on to one root. cluster_size: members of a cluster at most; NULL takes the setting. seed: another one gives another tree, the same one the same. A cluster whose texts have not changed keeps its node, summary and vector. Columns: level (0 = leaves), nodes, calls (items asked of models that are not built in).
Errors: 53200 if the vectors do not fit graphrag.build_memory, 42501 unless you are a member of the owning role.';

COMMENT ON FUNCTION @extschema@.raptor_search(text, text, int, jsonb, text, int, bigint[], int, int, int, int, text) IS
'The k nodes nearest to a question by cosine. mode: collapsed ranks leaves and summaries in one pool, leaf ranks leaves alone, traversal walks down from the roots, on each level through the width nearest nodes, for depth levels (NULL: to the leaves), and ranks those.
filter: pairs that the metadata holds; a summary has the pairs that all its documents share. documents: only what draws wholly on these document ids. min_level, max_level: only nodes of these levels (0 = leaves).
overlap: a node is left out, with skip, if at least half of it stands, sentence by sentence, in better ones above and below it, or one of those stands wholly in it; with extend, only if all of it does; with keep, never.
max_tokens: goes down the ranking and keeps what still fits. Exact up to exact_below candidates, through the HNSW index above; ties in canonical order.
Columns: node_id, level (0 = leaf), score (cosine), text, token_count, metadata, document_ids (at most 1,000), documents (their number).';

COMMENT ON FUNCTION @extschema@.raptor_search(text, vector, int, jsonb, text, int, bigint[], int, int, int, int, text) IS
'raptor_search by a vector of the collection''s dimensions in place of a text.';

COMMENT ON FUNCTION @extschema@.rag_search(text, text, int, jsonb, text[], text, bigint[], float8[], text, int, int, text[], int, vector, float8) IS
'The k best passages for a question by several methods: dense (leaves by cosine), lexical (leaves by BM25, k1 1.2, b 0.75), tree (leaves and summaries by cosine), graph (leaves by a walk over the knowledge graph, as graph_search). methods NULL is what measures best: graph where blocks have been read, else dense, with lexical where no part of the embedder is builtin:lsa; and lexical, too, where leaves hold a word of the question that builtin:lsa has not learned yet.
filter: pairs that the metadata holds. documents: only what draws wholly on these document ids. BM25 counts the leaves in scope alone. A text stands in the result once, and a summary not beside leaves that say half of it. repeats (1): the share of a text, in whole sentences, from which on it is left out where one better row says it; NULL: only what is the same is.
expand: leaf, or block, which shows for each leaf the block that it is from, each once. fusion: rrf (reciprocal ranks, constant 60) or scores (the scores of each method stretched to 0 to 1). weights: of the methods, in their order; NULL is 1 each.
max_tokens: goes down the ranking of k rows and keeps what still fits. candidates: rows taken of each method; NULL: 2k, of several methods at least 100 each, and more where rows are left out.
rewrite: what the answerer makes of the question, searched beside it: reword (other words), queries (up to five questions), hypothetical (a passage that would answer it; Gao et al. 2023), keywords (the names and themes that it speaks of; Guo et al. 2024). rerank: so many of the best are put in order by the reranker, and the first k shown. Both are off by default and counted by rag_usage. query_vector: the vector of the question, where the caller has it.
Columns: node_id, level (0 = leaf), score (fused; of one method alone its cosine or BM25), dense_rank, lexical_rank, tree_rank, graph_rank (from 1; NULL where the method has not found it), text, token_count, section_path, metadata, document_ids (at most 1,000), documents (their number), block_id, start_char, end_char (of text in the body of the document), matched (with block: the text of the leaf), rerank_score.
Errors: 22023 for unknown names or weights that do not fit, those of rag_embed with dense or tree, 55000 with rewrite without an answerer or rerank without a reranker, 38000 if the reranker fails, 42501 with either unless you are a member of the owning role, 42704 if the language of the collection has been dropped, 53200.';

COMMENT ON FUNCTION @extschema@.rag_explain(text, text, int, jsonb, text[], text, bigint[], float8[], text, int, int, text[], int, vector, float8) IS
'What rag_search with the same arguments has made of each candidate: every node of the fused ranking, best first, what each method scored it, and why it is not shown.
Columns: node_id, rank (in the result, from 1; NULL if it is not shown), score (fused; of one method alone its own), and of each method the rank from 1 and the score (dense and tree: cosine; lexical: BM25; graph: share of the walk), NULL where it has not found the node or was not asked, rerank_score,
outcome (shown; repeats node N; does not fit the budget, max_tokens; beyond k), text (of the leaf or the summary, its first 200 characters).
Errors: those of rag_search.';

COMMENT ON FUNCTION @extschema@.rag_evaluate(text, regclass, int, text[], jsonb, bigint[], bigint) IS
'How well methods find the documents that are known to be relevant: a row a method, with the means over all questions.
golden: a table or view of yours with columns question text, relevant text[] (source keys) and, if you like, grades int[] (0 to 50, of the same length; 1 where there is none), read with your rights. Keys of no document in scope, and questions without a known one, are left out, and a NOTICE says how many.
methods: dense, lexical, tree, graph (of rag_search alone); fused (dense+lexical); sums with weights if you like, such as dense*0.3+graph, fused by reciprocal ranks, or, with " by scores" behind, by scores, and with " with rerank" or " with reword+rerank" behind that with what models add (as in rag_search, for members of the owning role); local, global, hybrid, mix, pagerank (of graph_search).
k: the first so many documents count, 1 to 1000. What is ranked are documents: the first place of one counts, a summary of several is none.
Columns: method, k, questions (measured), recall, hit (one is found), all_found, precision, mrr, ndcg (gain 2^grade - 1), each from 0 to 1; difference (mean of recall less that of the first method, question by question), difference_low and difference_high (95 % bootstrap interval, 10,000 resamples, the same for the same seed); milliseconds (median of a search for k rows, without the embedding of the question).
Errors: 42703 or 42804 for a golden table without the columns, 42501 without rights on it, 22023 for an unknown method or grades that do not fit.';

COMMENT ON FUNCTION @extschema@.rag_evaluate_detail(text, regclass, int, text[], jsonb, bigint[]) IS
'rag_evaluate question by question: a row for each question and method.
Columns: question, method, the measures of this question, found (source keys of the first k documents, best first; NULL for one without), missed (relevant keys that are not among them).';

COMMENT ON FUNCTION @extschema@.rag_evaluate_answers(text, regclass, text[], jsonb, bigint[]) IS
'How good the answers of rag_ask are, as the answerer of the collection judges them (the RAG triad of TruLens): a row for each question and mode. avg() over a mode sums it up.
golden: a table or view of yours with a column question text and, if you like, answer text (the expected one), read with your rights, each row once, ordered by question. modes: of rag_ask, each with its defaults. filter and documents: as in rag_ask; the judge reads what the answerer has read, and nothing else.
Columns: question, mode, context_relevance (mean score of the texts that the answerer read; NULL without one), groundedness (share of the answer''s statements that these texts support, of those that it cites first, up to the setting report_tokens), answer_relevance (how well the answer addresses the question), correctness (how far it says what the expected answer says; 0 without an answer, NULL without an expected one), each from 0 to 1;
answer, unsupported (the statements that the texts do not support), calls (items asked of models now, for the answer and its judgements), failed (judgements that could not be read: their score is NULL, or of the other texts, and the next call asks again). Without an answer groundedness and answer_relevance are NULL.
A question that cannot be answered since the model has failed is left out in all modes, and a NOTICE says so. What is asked again in the same words is paid once. The judge is a model: it errs, and is partial to what it wrote itself.
Errors: as rag_ask; 42703 or 42804 for a golden table without the columns, 42501 without rights on it, 22023 for an unknown mode.';

COMMENT ON FUNCTION @extschema@.raptor_tree(text, bigint, text, int) IS
'The tree as rows in the order of reading, one for each way to a node. Without node_id from the roots, else from that node: down to the leaves, or, with direction up, all that stands above it, from the roots down to it.
depth: levels to walk from the start, which is 1; NULL is all. At most 1,000,000 rows; a NOTICE says if there are more.
Columns: node_id, parent_id (on this way), level (0 = leaf), depth (1 = where the way starts), path (node ids down to this one), weight (of the edge from the parent), token_count, text. Errors: P0002 no such node.';

COMMENT ON FUNCTION @extschema@.graph_extract(text, boolean) IS
'Reads the blocks that were not read yet (with again all blocks) and writes what they say of entities, relations and claims, with the verbatim words and their offsets as evidence.
builtin:cooccurrence finds titles of documents, names by their capitals, and phrases by repetition, and links those of one sentence; the words between them are the predicate.
Of models'' answers a quote that does not stand in the block gives way to the first sentence with both names; the setting ungrounded (flag or drop) says whether such records, and names that do not stand there, are kept. The settings entity_types, predicates, extract_language, extract_examples, extract_claims and gleanings (questions for what was missed) shape what is asked.
Descriptions of an entity or a relation are joined, and summarised above the setting description_tokens. What was asked before and is asked in the same words again is not paid again.
Columns: blocks read, entities and relations that they touch, failed blocks, calls (items asked of models that are not built in), reasons (how many records of their answers were dropped or flagged, by reason).';

COMMENT ON FUNCTION @extschema@.graph_add(text, text, text, text, text, bigint, jsonb, text, float8) IS
'Adds the relation subject - predicate -> object and its entities, or adds to it if it exists; answers its id. Names are compared folded: case, width, spaces, underscores and quotes do not count.
With document_id it is evidence of that document: quote must stand in it (else the first sentence with both names is taken), and it goes when the document goes; weight is then the number of blocks.
Without, it is stated by hand and stays; weight (default 1) is yours. Errors: P0002 no such document, 22023 for a quote that is not found.';

COMMENT ON FUNCTION @extschema@.graph_import(text, text, text, bigint) IS
'Takes in what a model has answered or another tool has extracted: entities, relations and claims. What comes again is not written twice.
payload: in one of the formats tuple, json, xml (replies of models), graphrag, lightrag, hipporag, networkx, graphml, csv (ready graphs); auto recognises it.
A record that names a document (source_key, or the key or text of a passage) or a block (block_id, or the argument for all) is evidence there, at its quote, else at the first sentence with both names; the weight of a relation is then the number of blocks. Others are stated by hand, with their weight or 1; those of equal names add up.
Columns: entities, relations and claims of the payload, new or not; dropped records; reasons (how many records were dropped or flagged, by reason). Errors: 22P02 a payload that cannot be read, 22023 an unknown format, P0002 no such block.';

COMMENT ON FUNCTION @extschema@.graph_resolve(text, float8, boolean) IS
'Proposes entities that may be one, by their names (initials, contained name, spelling, word order, plural, title, transliteration) by the neighbours that they share, and by how alike the leaves are that mention them; changes nothing. graph_merge(collection, keep, alias) does what you agree to.
Never proposed are names that differ in a number, a version, a year, a numeral or an opposite (north, south). Of names that are near by way of a third alone only the nearest are put together.
threshold: the least score, from 0.5 to 1. Columns: keep (of most documents), alias, score, reason, shared (neighbours of both), keep_documents and alias_documents (that mention each), same. Best first.
ask: has the answerer decide on each proposal; same is what it says, NULL where it has failed or was not asked. Errors: 22023 without an answerer.';

COMMENT ON FUNCTION @extschema@.graph_merge(text, text, text[]) IS
'Makes one entity of several: keep, and those called by the aliases, whose names lead to it from then on, also in documents that come later. Answers the id of keep.
Mentions and evidence stay as they are written; relations are re-pointed, those that become equal are one, weights and degrees are recounted, and the weights of what was stated by hand add up, under the words of keep. A relation between two of them is one of keep with itself.
Nothing to do if they are one already. graph_unmerge undoes it. Errors: P0002 no such entity, with the names most like it.';

COMMENT ON FUNCTION @extschema@.graph_unmerge(text, text) IS
'Undoes graph_merge for one alias: what is said under that name, also since then, is an entity again, with the relations that were stated by hand of it. Answers its id.
Errors: P0002 no such name, 22023 a name that was not merged.';

COMMENT ON FUNCTION @extschema@.graph_bind(text, text, regclass, text, text, text[], boolean) IS
'Binds an entity type to a table of yours: each row is an entity of the type, with the row''s key in entity.row_key. Calling it again takes in the rows as they are now; nothing else does.
name: the column that rows are called by. key: a column of unique values, its text is the key; NULL takes the primary key. aliases: columns (text or text[]) of further names, which lead to the entity as those of graph_merge do.
A name of several rows is bound to none of them; the entity of such a row is called "name (key)". edges: foreign keys of one column to and from bound tables are relations, called as the column is without _id, _key, _fk or _uuid.
The table is read as the owner of the collection, whom row security holds for. Columns: entities (rows that are one), relations (of foreign keys). Errors: 42703 no such column, 42501 unless you are a member of the owning role and that role may read the columns.';

COMMENT ON FUNCTION @extschema@.graph_unbind(text, text) IS
'Undoes graph_bind for a type; its table may be gone. What documents say, and what was stated by hand, stays; entities that are nothing but rows go. Errors: 42704 a type that is not bound.';

COMMENT ON FUNCTION @extschema@.graph_communities(text, text, float8, int, bigint) IS
'Finds the communities of the knowledge graph, for each partition alone. Those with the same members keep their row and report; one that has changed keeps the row of its closest ancestor, without its report.
algorithm: leiden (Traag, Waltman and van Eck 2019, by modularity), cpm (the same by the constant Potts model), label_propagation or components; the latter two have level 0 only.
resolution: greater ones make smaller communities; for the latter two of the modularity that is reported (Newman and Girvan 2004; Reichardt and Bornholdt 2006). max_size: a community of more members is divided again on its inner graph, as the next level (0 is the coarsest), if it can be. seed: of the order in which entities are looked at.
Columns: level, communities (those that stand at the level: an undivided one stands for itself below; an entity without a relation is one), largest (members), modularity.';

COMMENT ON FUNCTION @extschema@.graph_summarize(text, int) IS
'Writes the reports of communities of two or more entities that have none or a stale one: title, summary, findings and a rating from 0 to 10 by the amount of evidence.
level: only this one. Columns: level, reports written, failed, calls (items asked of models that are not built in).';

COMMENT ON FUNCTION @extschema@.graph_global(text, text, int, int, jsonb, bigint[]) IS
'The k (default 5) community reports nearest to a question by cosine: themes that no single passage states. level: only communities that stand there (those of it, and those above that do not divide); NULL ranks all.
filter and documents: only communities all of whose documents pass. Columns: community_id, level, score, title, summary, rating, size (members).';

COMMENT ON FUNCTION @extschema@.graph_search(text, text, text, int, jsonb, bigint[], int) IS
'The k passages that a walk over the graph comes by most: personalised PageRank (damping 0.7) over blocks and the entities that they mention, from what the question names and from what is near to it; finds what is not near itself. Approximate by forward push (Andersen, Chung and Lang 2006). Asks no model but the embedder.
mode, where the walk starts: local (entities that the question names, and those that the nearest passages mention), global (entities of the nearest reports), hybrid (both), mix (named entities, the nearest passages and reports), pagerank (named entities and nearest passages, as in HippoRAG 2). What is not there is left out; with nothing at all, the nearest passages are.
filter and documents: as in raptor_search; edges and counts come from documents in scope alone. max_tokens: goes down the ranking and keeps what still fits. Columns: node_id, score (share of the walk, 0 to 1, of the leaf of a block that is nearest to the question; less of the others), text, via (up to three entities through which most of it came), token_count, document_ids.';

COMMENT ON FUNCTION @extschema@.graph_local(text, text, int, jsonb, int, bigint[]) IS
'The relations around an entity, incoming and outgoing, up to so many hops, heaviest first within a hop, at most max_edges.
With filter or documents only evidence of documents that pass is read: weight, names and words come from it alone.
Columns: hop, source, predicate, target, weight, description, quote (verbatim), node_ids (leaves that hold a quote), document_ids.';

COMMENT ON PROCEDURE @extschema@.rag_refresh(text, bigint, text[]) IS
'Does what is pending in a collection: cuts documents, embeds, builds the tree, extracts, finds communities, writes reports; each batch is committed, so that a crash repeats at most the calls in the air.
steps: of embed, tree, extract, describe, communities, reports; NULL does those whose models are built in or functions, embed, and what was once done or planned with a paid model. max_calls: asks models for at most so many items and stops; the next CALL goes on.
Refused inside a transaction block (2D000). A second refresh of the same collection waits for the first. Errors: 42501 unless you are a member of the owning role, HV00N for a server that cannot be reached.';

COMMENT ON FUNCTION @extschema@._refresh_start(text, bigint, text[]) IS 'The first thing that rag_refresh does.';
COMMENT ON FUNCTION @extschema@._refresh_round(text) IS 'One short piece of what rag_refresh does; whether there is more.';

COMMENT ON FUNCTION @extschema@.rag_usage(text) IS
'What models were asked and what it cost, by step (embed, reembed, tree, extract, describe, resolve, reports, map, rate, explore, ask, judge, draft, rewrite, rerank), documents that are gone by now included.
Columns: step, calls (items asked), prompt_tokens and completion_tokens (as the model counts them, else estimated; NULL of functions), cost (by the prices of the server; NULL without any), failed, repaired (replies that had to be mended to be read).';

COMMENT ON FUNCTION @extschema@.rag_estimate(text) IS
'What the next refresh would ask of models if it did all steps, before it does: calls are items (texts, clusters, blocks, communities). What is built in asks nothing, nor do clusters of the tree that have not changed.
Columns: step, level (of the tree, a row for each; NULL for other steps and for a tree that asks nothing), calls, calls_high (at most, where it depends on how texts group and on answers that are not there yet), prompt_tokens, completion_tokens (of calls; from what was seen so far once one in a hundred is done), cost (by the prices of the server; NULL without any).';

COMMENT ON FUNCTION @extschema@.rag_health(text) IS
'Whether extensions, models, indexes and triggers of a collection work. An embedder gets one word; another server is asked for the list of its models, which costs nothing.
Columns: part, state (ok, degraded, failed), detail. Errors: 42501 unless you are a member of the owning role.';

COMMENT ON FUNCTION @extschema@.rag_ask(text, text, text, int, int, jsonb, bigint[], boolean, int, boolean) IS
'Asks the answerer of the collection a question. What is asked again in the same words over the same texts is paid once. Modes:
auto: local if the question names entities, else global over the ten nearest reports if a word of it asks about the whole or a report is nearer than any passage, else local, or plain without a graph; the answer says which, and why.
local: with passages by rag_search and relations of the entities that are named, up to the setting context_tokens; without an answerer it answers that context. max_hops (1): rounds of retrieval; with more the question is first divided, and after each round the answerer says what is missing.
plain: with the eight nearest passages (leaves and summaries; with a reranker the best eight of fifty).
global, for questions about the whole: the reports on communities are read in batches, each of which gives points with scores, and the best points give the answer (GraphRAG, Edge et al. 2024). text: the same over all text, without reports; costs most.
drift: from the reports nearest to the question by rounds of follow-up questions down to passages (after DRIFT of Microsoft''s GraphRAG).
level: of global, whose communities'' reports are read (0, the coarsest), with dynamic the deepest that is looked into; of drift, those that are read first (any). In place of a report that draws on a document out of scope those below it are read, at the end a digest of what documents in scope say. k: only the k reports nearest to the question (drift: 20). dynamic: of global, the answerer rates reports from the coarsest level down, and only where they are relevant those below. max_hops: of drift, rounds (2) of at most five follow-up questions. events: each step is a NOTICE with JSON as its DETAIL, at once.
filter and documents: as in raptor_search. Answers an object: answer (NULL if nothing was found), grounded (whether each sentence cites a text), citations (n, and node_id or block_id with title and source_key, or relation_id, or community_id, level, title, documents, document_ids), unknown_citations (taken out of the answer, since they cite nothing), calls, timings_ms; local also sub_questions, hops_used, context_tokens; global, text and drift points and points_left_out (of the budget report_tokens); global and text coverage; drift follow_ups, follow_ups_left, reports_read, passages_read; auto mode and why.
Errors: 55000 without an answerer, or for global without communities, 38000 if it fails, 42501 unless you are a member of the owning role, 53200 if the texts need more than graphrag.build_memory.';

COMMENT ON FUNCTION @extschema@.rag_judge(text, text[], jsonb, jsonb, text[], int, jsonb, bigint[]) IS
'Compares two ways of rag_ask to answer questions: the answerer judges each pair of answers by each criterion in both orders, repeats times (Edge et al. 2024).
first, second: options of rag_ask as an object (mode, level, k, dynamic, max_hops). criteria: of comprehensiveness, diversity, empowerment, directness. filter and documents: as in rag_ask.
Columns: criterion, questions (that count: not those for which an answer or all judgements have failed), first_wins, second_wins, ties (of questions), win_rate (mean share of first over the questions: 1 for a win, 0.5 for a tie), agreement (share of the pairs of judgements that say the same in both orders; low where the answerer prefers a place), calls (judgements asked now), failed (judgements that could not be read; their pairs do not count).
Equal answers tie and no answer loses, without a judgement. What is asked again in the same words is paid once.
Errors: as rag_ask; 22023 for other options or criteria.';

COMMENT ON FUNCTION @extschema@.rag_questions(text, int, int, int, jsonb, bigint[]) IS
'Drafts questions about the whole corpus, for rag_judge: the answerer reads the reports on the coarsest communities (without these the roots of the tree, else leaves) up to report_tokens, and names personas, tasks of each, and questions of each task (Edge et al. 2024). 1 + personas + personas * tasks calls.
filter and documents: only what draws wholly on documents that pass is read. Columns: persona, task, question; fewer than asked for where the answerer gives fewer or the same twice.
Errors: 55000 without an answerer, 38000 if it fails, 42501 unless you are a member of the owning role.';

COMMENT ON FUNCTION @extschema@.rag_context(text, text, int, jsonb, text[], text, float8, bigint[], text[], int, boolean) IS
'What a model should read for a question: passages as rag_search finds them, and relations of the entities that it names, packed into max_tokens, which are never exceeded: what does not fit is skipped.
methods, expand, filter, documents, rewrite and rerank: as in rag_search. graph_share (0.2): of max_tokens, what relations may take before passages; either gets what the other leaves. left_out: whether the candidates that did not fit follow.
Columns: citation (P1 a passage or summary, G1 a relation, NULL for what did not fit), kind (passage, summary, relation), id (of node or relation), text, token_count (of the text behind its tag), title, source_key, section_path, start_char, end_char (of a leaf or block, in the body of its document), document_ids.
Errors: those of rag_search, 22023 for a number out of range.';
