//! Stores, several servers on one store, and servers that die.

mod replicas;
mod schedules;
mod store_errors;
mod store_model;
mod stores;
mod taken_up;
mod task_kills;
