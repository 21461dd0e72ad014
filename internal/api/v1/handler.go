package v1

// HandlerTest asks for a test message to one handler.
type HandlerTest struct {
	Node string `json:"node,omitempty" maxLength:"253" doc:"Whose properties the handler's variables take; of the same namespace, or NAMESPACE/NAME. Default: of nobody's."`
}

// HandlerTested is what came of it. Secrets are hidden.
type HandlerTested struct {
	Outcome string  `json:"outcome" enum:"taken,retried,final" doc:"taken; or what would become of a real message: tried again, or given up."`
	Sent    string  `json:"sent,omitempty" doc:"What went over the wire."`
	Answer  string  `json:"answer,omitempty" doc:"What came back."`
	Error   string  `json:"error,omitempty"`
	Seconds float64 `json:"seconds" doc:"How long it took."`
}

// HandlerReplay says which dead letters of a handler are to be sent again.
type HandlerReplay struct {
	IDs     []int64 `json:"ids,omitempty" maxItems:"1000" doc:"Only these; default all."`
	Ended   bool    `json:"ended,omitempty" doc:"Also of problems that have ended, with what tells of their end."`
	Limit   int     `json:"limit,omitempty" minimum:"0" maximum:"1000" doc:"At most so many, oldest first; default 1000."`
	Message string  `json:"message,omitempty" maxLength:"1000" doc:"Why; kept in the record."`
}

// HandlerReplayed is what came of it.
type HandlerReplayed struct {
	Sent int `json:"sent" doc:"Messages that are on their way again."`
	Over int `json:"over,omitempty" doc:"Dead letters that were left, because their problem has ended."`
	More int `json:"more,omitempty" doc:"Dead letters beyond the limit."`
}
