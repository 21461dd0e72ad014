// Package collect measures the items of Templates on the agent's machine, under the keys of Zabbix's agent.
//
// A Wheel knows when the items are due. It collects items of one Template that are due at the same time together, and
// makes one value block of them. A key that no collector knows, or a collector that fails, gives the reason in place of a
// value: the item is unsupported, and the server shows why. Secrets stay in the collector: no block has one (secret_macros.go).
//
// Goroutines: the caller's of Run, one for each group that is being collected, and one for each item that waits for a disk,
// a program or the network: it has a time limit. On Windows one more samples performance counters. Locks guard the list of
// items, the counters of the last collection, the sampled performance counters and the items that do not answer; none is
// held while another is taken. Start reading at Wheel.Run; collector_table.go has the keys of all systems,
// collectors_linux.go and its like the functions of one system.
package collect
