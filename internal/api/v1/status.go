package v1

import "time"

// Status is whether all is well, worst first.
type Status struct {
	Server     string    `json:"server"` // version
	Started    time.Time `json:"started"`
	Now        time.Time `json:"now"`
	Nodes      int       `json:"nodes"`
	Connected  int       `json:"connected"` // agents with a session now
	Events     uint64    `json:"events"`
	ByStatus   ByStatus  `json:"byStatus"`
	Rooms      []Room    `json:"namespaces,omitempty" doc:"What of it is where, if more than one namespace has events: at most 5, those with the most that is not OK first."`
	Problems   uint64    `json:"problems"`
	LastHour   LastHour  `json:"lastHour"`
	Worst      []Event   `json:"worst,omitempty" doc:"The worst events, those about silent nodes left out."`
	Silent     uint64    `json:"silent" doc:"Nodes of which nothing was heard for longer than their keepalive allows."`
	SilentNow  []Event   `json:"silentNodes,omitempty" doc:"The keepalive events of some of them."`
	Journal    Journal   `json:"journal"`
	Reactions  Reactions `json:"reactions"`
	Revision   int64     `json:"revision"`
	LastChange []Change  `json:"lastChanges,omitempty"`
	NotReady   []string  `json:"notReady,omitempty" doc:"Why the server is not ready; empty: it is."`
	Warnings   []string  `json:"warnings,omitempty"`
}

// LastHour is what happened in the last hour.
type LastHour struct {
	Opened  int `json:"opened"` // problems
	Closed  int `json:"closed"`
	Changes int `json:"changes" doc:"Of resources, by people."`
}

// ByStatus counts events.
type ByStatus struct {
	OK       uint64 `json:"ok"`
	Warning  uint64 `json:"warning"`
	Critical uint64 `json:"critical"`
	Unknown  uint64 `json:"unknown"`
}

// Journal is how the journal is.
type Journal struct {
	SizeBytes   int64  `json:"sizeBytes"`
	FreeBytes   int64  `json:"freeBytes,omitempty" doc:"Of the disk it lies on."`
	BudgetBytes int64  `json:"budgetBytes"`
	QueuedBytes int64  `json:"queuedBytes"`
	Blocked     string `json:"blocked,omitempty"`
}

// Reactions is how far history and delivery are.
type Reactions struct {
	Waiting       int64   `json:"waiting" doc:"Changes that history has not recorded yet."`
	BehindSeconds float64 `json:"behindSeconds,omitempty" doc:"How long ago the oldest of them was received."`
	Lagging       bool    `json:"lagging,omitempty" doc:"So long that people should know."`
}

// Queue is one bounded queue.
type Queue struct {
	Name     string `json:"name"`
	Capacity int64  `json:"capacity"`
	Depth    int64  `json:"depth"`
	Unit     string `json:"unit"`
	Policy   string `json:"policy"`
	Passed   uint64 `json:"passed"`
	Overflow uint64 `json:"overflow"`
}

// QueueList is all queues, by name.
type QueueList struct {
	Items []Queue `json:"items"`
}
