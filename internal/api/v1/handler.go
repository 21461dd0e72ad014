package v1

import (
	"fmt"
	"time"
)

// HandlerTest asks for a test notification to one handler.
type HandlerTest struct {
	Node string `json:"node,omitempty" maxLength:"253" doc:"Whose properties the handler's variables take; of the same namespace, or NAMESPACE/NAME. Default: of nobody's."`
}

// HandlerTested is the outcome of a test. Secrets are hidden.
type HandlerTested struct {
	Outcome string  `json:"outcome" enum:"taken,retried,final" doc:"taken; or what would become of a real message: tried again, or given up."`
	Sent    string  `json:"sent,omitempty" doc:"What went over the wire."`
	Answer  string  `json:"answer,omitempty" doc:"What came back."`
	Error   string  `json:"error,omitempty"`
	Seconds float64 `json:"seconds" doc:"How long it took."`
}

// HandlerReplay selects the dead letters of a handler to send again.
type HandlerReplay struct {
	IDs     []int64 `json:"ids,omitempty" maxItems:"1000" doc:"Only these; default all."`
	Ended   bool    `json:"ended,omitempty" doc:"Also of problems that have ended, with what tells of their end."`
	Limit   int     `json:"limit,omitempty" minimum:"0" maximum:"1000" doc:"At most so many, oldest first; default 1000."`
	Message string  `json:"message,omitempty" maxLength:"1000" doc:"Why; kept in the record."`
}

// HandlerReplayed is the outcome of a replay.
type HandlerReplayed struct {
	Sent int `json:"sent" doc:"Messages that are on their way again."`
	Over int `json:"over,omitempty" doc:"Dead letters that were left, because their problem has ended."`
	More int `json:"more,omitempty" doc:"Dead letters beyond the limit."`
}

// HandlerStream is the progress of a handler that receives every result.
type HandlerStream struct {
	BehindSeconds float64   `json:"behindSeconds" doc:"Age of the oldest commit of the journal that it was not told of; zero: it was told of all."`
	BehindBytes   int64     `json:"behindBytes" doc:"Journal from there on."`
	Connections   int       `json:"connections" doc:"Open now; each is opened when it is first needed."`
	Lines         uint64    `json:"lines" doc:"Written since the server started, also those that came again."`
	Again         uint64    `json:"again,omitempty" doc:"Times that lines were written again because connections broke."`
	Withheld      uint64    `json:"withheld,omitempty" doc:"Results of namespaces of which nothing is sent (notifications: shadow)."`
	Skipped       uint64    `json:"skipped,omitempty" doc:"Results that it was never told of, because it was too far behind."`
	SkippedAt     time.Time `json:"skippedAt,omitzero"`
	Trouble       string    `json:"trouble,omitempty" doc:"Why it does not get on now."`
	News          string    `json:"news,omitempty" doc:"What became of its place at the start, where it did not go on from there."`
}

// Lag describes the distance of the stream to the journal.
func (s *HandlerStream) Lag() string {
	behind := fmt.Sprintf("%s behind", time.Duration(s.BehindSeconds*float64(time.Second)).Round(time.Second))
	switch {
	case s.BehindBytes == 0 && s.Trouble == "":
		return "up to date"
	case s.Trouble != "":
		return "STUCK, " + behind
	}
	return behind
}
