// Package zabbix is the source for unmodified senders and agents of Zabbix: the trapper side of a Zabbix server. docs/from-zabbix.md
// is the manual.
//
// In: connections of a listener of its own (admission.Serve), from addresses that a namespace allows (spec.zabbixFrom), with one
// request each (frame.go, parse_request.go). zabbix_sender sends values of trapper items (store_sender_values.go). Agents ask for the items that they
// shall collect, and send values (active_agent_requests.go). Out: value blocks in the journal, all of a request in one append; the answer leaves when they
// are durable. The protocol has no refusal of a single value: those are counted by reason, and the answer names the first one.
//
// Values of senders are records about their node without a number, because senders have none and prove no agent alive. Values of
// agents are signals in batches, with the agent's numbers.
//
// Goroutines: one per connection, of package admission. Locks, in order: an agent's mu, held during its request; then agents.mu.
// itemIndexes.mu is independent. Start reading at server.go.
package zabbix
