-- Services that answer over HTTP, declared as PostgreSQL declares any outside service: CREATE SERVER. There is no handler,
-- since nothing of it is a table. USAGE on the wrapper is granted to nobody, so superusers alone make servers.

CREATE FUNCTION @extschema@._model_options(options text[], catalog oid)
RETURNS void LANGUAGE c VOLATILE AS 'MODULE_PATHNAME', '_model_options_wrapper';

CREATE FOREIGN DATA WRAPPER graphrag_model VALIDATOR @extschema@._model_options;

COMMENT ON FUNCTION @extschema@._model_options(text[], oid) IS
'Checks the options of the servers of graphrag_model, and of their user mappings.';

COMMENT ON FOREIGN DATA WRAPPER graphrag_model IS
'Language and embedding models behind HTTP: CREATE SERVER s FOREIGN DATA WRAPPER graphrag_model OPTIONS (base_url ''https://host/v1'', chat_model ''name'').
Options of a server: api (openai, anthropic), base_url, chat_model, embedding_model, rerank_model, structured_output (json_schema, json_object, none), api_key_file or api_key_env (superusers only),
concurrency 8, requests_per_minute, timeout_ms 120000, retries 4, batch_size 64 (texts of one embedding request), max_tokens 4096 (of a reply), temperature (not sent unless given), token_limit (the field that says max_tokens: max_tokens, or max_completion_tokens for OpenAI''s reasoning models), embedding_dimensions,
price_in, price_out, price_embedding (for a million tokens). Of a user mapping: api_key, which superusers, dumps and statement logs can show, and the mapped role itself.
The owner of a collection needs USAGE on the server; the key is his mapping''s, else that of PUBLIC, else the server''s.';
