//! From documents to blocks and leaves, and away again: what the triggers on `document` and the build functions do.

mod add;
mod chunk;
mod embed;
mod forget;
mod queue;
mod trigger;

pub use chunk::chunk_documents;
pub use embed::{Leaves, embed_all_leaves, queue_leaves, tell_waiting};
pub use forget::{forget_all, forget_documents, leave_partition, refresh_metadata, share_metadata};
pub use queue::{WAITING, Waiting, cut_anew, cut_waiting, no_longer_waiting, queue_all, take_up, will_drop_index};
