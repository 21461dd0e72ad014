// Package zabbix is the source for unmodified senders and agents of Zabbix: the trapper side of a Zabbix server. docs/from-zabbix.md
// is the manual.
//
// In: connections of a listener of its own (admission.Serve), from addresses that a namespace allows (spec.zabbixFrom), with one
// request each (frame.go, request.go). zabbix_sender sends values of trapper items (values.go). Out: value blocks in the journal, all
// of a request in one append; the answer leaves when they are durable. The protocol has no refusal of a single value: those are
// counted by reason, and the answer names the first one.
//
// Goroutines: one per connection, of package admission. Locks: templates.mu alone. Start reading at server.go.
package zabbix
