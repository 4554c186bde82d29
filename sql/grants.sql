-- Functions that write check membership in the role that owns the collection, and read with the caller's own rights, so
-- everybody may call them. The trigger functions can only be called as triggers.

GRANT SELECT ON @extschema@.rag_collections TO PUBLIC;
