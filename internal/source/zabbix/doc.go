// Package zabbix is the source for unmodified senders and agents of Zabbix: the trapper and the agent pollers of a Zabbix server. docs/from-zabbix.md
// is the manual.
//
// In: connections of a listener of its own (admission.Serve), from addresses that a namespace allows (spec.zabbixFrom), with one
// request each (frame.go, parse_request.go). zabbix_sender sends values of trapper items (store_sender_values.go). Agents ask for the items that they
// shall collect, and send values (active_agent_requests.go). Out: value blocks in the journal, all of a request in one append; the answer leaves when they
// are durable. The protocol has no refusal of a single value: those are counted by reason, and the answer names the first one.
//
// Agents that only answer are polled (Server.Poll): poll_agents.go decides when, poll_round.go asks one agent for its due items,
// passive_protocol.go is the protocol.
//
// Values of senders and of polled agents are records about their node without a number, because senders have none and prove no
// agent alive. A session start beside the values of a polled agent is its keepalive. Values of agents that send are signals in
// batches, with the agent's numbers.
//
// Goroutines: one per connection, of package admission; Poll, and one per round under way. Locks, in order: an agent's mu, held during
// its request; then agents.mu. itemIndexes.mu and poller.mu are independent. Start reading at server.go.
package zabbix
