//! Everything that needs a server. One program, so that the cluster is started once.

mod signatures;
