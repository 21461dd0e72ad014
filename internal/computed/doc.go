// Package computed makes the values of items that need more than the values of their node: formulas over items of several nodes
// (avg(last_foreach(/*/key))), and internal items, by which the server measures itself (zabbix[queue]).
//
// In: Templates (directory), series (queries limited to the namespace of a node), the state of items. Out: value blocks in the journal;
// the metric view treats them as values of a trapper. State: none but the time of the last tick.
//
// Goroutines: one, Engine.Run, which computes the due items once a second. Locks: none. Start reading at Engine.Run.
package computed
