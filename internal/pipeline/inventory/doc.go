// Package inventory is the inventory reducer: changes of inventories → the present entries of each node, and its last differences. Entries
// are interned in one dictionary: a node has four bytes for each. The package stands on the shard of package pipeline/shard, whose partitions'
// mutexes guard the state of nodes; the dictionary has a lock of its own, taken inside of those. It has no goroutines. Start reading at
// applier.Signal in node_inventories.go; entry_dictionary.go has the interned entries, inventory_search.go finds nodes by them, snapshot_encoding.go has the section of snapshots.
package inventory
