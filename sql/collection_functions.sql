-- Collections. What reads is STABLE; nothing is STRICT, since a NULL argument is an error with a message of its own.

CREATE FUNCTION @extschema@.rag_create(
    collection text,
    dimensions int DEFAULT 384,
    embedder text DEFAULT 'builtin:lsa',
    summarizer text DEFAULT 'builtin:frequency',
    extractor text DEFAULT 'builtin:cooccurrence',
    answerer text DEFAULT NULL,
    partition_by text[] DEFAULT '{}',
    language regconfig DEFAULT 'english',
    settings jsonb DEFAULT '{}')
RETURNS void LANGUAGE c VOLATILE COST 1000 AS 'MODULE_PATHNAME', 'rag_create_wrapper';

CREATE FUNCTION @extschema@.rag_alter(collection text, settings jsonb)
RETURNS void LANGUAGE c VOLATILE COST 1000 AS 'MODULE_PATHNAME', 'rag_alter_wrapper';

CREATE FUNCTION @extschema@.rag_drop(collection text)
RETURNS void LANGUAGE c VOLATILE COST 1000 AS 'MODULE_PATHNAME', 'rag_drop_wrapper';

CREATE FUNCTION @extschema@._collections()
RETURNS TABLE (
    collection text, owner text, dimensions int, embedder text, summarizer text, extractor text, language text,
    partition_by text[])
LANGUAGE c STABLE COST 1000 ROWS 10 AS 'MODULE_PATHNAME', '_collections_wrapper';

CREATE VIEW @extschema@.rag_collections AS SELECT * FROM @extschema@._collections();

CREATE FUNCTION @extschema@.rag_status(collection text)
RETURNS TABLE (
    step text, total bigint, done bigint, pending bigint, failed bigint, built_at timestamptz, model text,
    calls bigint, waiting bigint)
LANGUAGE c STABLE COST 1000 ROWS 6 AS 'MODULE_PATHNAME', 'rag_status_wrapper';

-- Trigger functions of the tables of a collection.

CREATE FUNCTION @extschema@._document_row() RETURNS trigger
LANGUAGE c AS 'MODULE_PATHNAME', '_document_row_wrapper';

CREATE FUNCTION @extschema@._document_change() RETURNS trigger
LANGUAGE c AS 'MODULE_PATHNAME', '_document_change_wrapper';

CREATE FUNCTION @extschema@._relation_change() RETURNS trigger
LANGUAGE c AS 'MODULE_PATHNAME', '_relation_change_wrapper';

CREATE FUNCTION @extschema@._member_change() RETURNS trigger
LANGUAGE c AS 'MODULE_PATHNAME', '_member_change_wrapper';

CREATE FUNCTION @extschema@._name_row() RETURNS trigger
LANGUAGE c AS 'MODULE_PATHNAME', '_name_row_wrapper';
