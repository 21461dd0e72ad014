// Package collect measures the items of Templates on the agent's machine, under the keys of Zabbix's agent.
//
// A Wheel knows when the items are due. It collects items of one Template that are due at the same time together, and
// makes one value block of them. A key that no collector knows, or a collector that fails, gives the reason in place of a
// value: the item is unsupported, and the server shows why.
//
// Goroutines: the caller's of Run, and one for each file system that does not answer. One lock guards the list of items.
// Start reading at Wheel.Run; table.go has the collectors.
package collect
