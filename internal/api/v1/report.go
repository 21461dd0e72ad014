package v1

import (
	"time"

	"github.com/muster-fleet/muster/internal/model"
)

// ReportQuery selects a namespace (empty: all) and a period.
type ReportQuery struct {
	Namespace    string
	Since, Until time.Time
	After        string
	Where        string // over row; for lists
}

// ShadowMessage is a notification that was not sent because its namespace is a shadow.
type ShadowMessage struct {
	At        time.Time `json:"at" doc:"When it would have been sent."`
	Handler   string    `json:"handler" doc:"NAMESPACE/NAME of who would have been told."`
	Route     string    `json:"route,omitempty" doc:"NAMESPACE/NAME; none: the handler is named by the check or the namespace."`
	Tells     string    `json:"tells" doc:"What it says of its problems: opened, reminder, closed or acknowledged."`
	Namespace string    `json:"namespace"`
	Node      string    `json:"node" doc:"Of the worst problem, where it tells of several."`
	Check     string    `json:"check"`
	Status    string    `json:"status"`
	Severity  string    `json:"severity"`
	Problem   string    `json:"problem"`
	Opened    time.Time `json:"opened"`
	Count     int       `json:"count" doc:"Of problems that it tells of."`
	Summary   string    `json:"summary" doc:"What would have been read."`
}

// ShadowList is a page of notifications, newest first.
type ShadowList struct {
	Since time.Time       `json:"since"`
	Until time.Time       `json:"until"`
	Items []ShadowMessage `json:"items"`
	Notes []string        `json:"notes,omitempty" doc:"What the report cannot know, in words."`
	Next  string          `json:"next,omitempty"`
}

// Noise counts pages to people in a period, and lists checks that never fail.
type Noise struct {
	Since time.Time   `json:"since"`
	Until time.Time   `json:"until"`
	Notes []string    `json:"notes,omitempty" doc:"What the report cannot know, in words."`
	Weeks []time.Time `json:"weeks" doc:"When each week of pages begins, the oldest first; they are counted back from until, so that the oldest may be a part of one."`
	// Pages counts openings, reminders and summaries; an end or an acknowledgement pages nobody.
	Pages    int            `json:"pages" doc:"Messages of problems that opened (or, repeated, last)."`
	Failed   int            `json:"failed" doc:"Those of them that no handler took."`
	Shadow   int            `json:"shadow" doc:"Those of them that were only shown, not sent."`
	Checks   []NoisyCheck   `json:"checks" doc:"Those with pages, problems or flaps, the loudest first."`
	Routes   []NoisyRoute   `json:"routes" doc:"The loudest first."`
	Quiet    []QuietCheck   `json:"quiet" doc:"Checks that opened no problem in the period."`
	Nowhere  []QuietCheck   `json:"nowhere" doc:"Checks that run on no node."`
	Silences []StaleSilence `json:"silences" doc:"Silences that are older than 30 days, or that match nothing any more."`
}

// NoisyCheck counts the problems of one check in a namespace of nodes.
type NoisyCheck struct {
	Namespace string  `json:"namespace" doc:"Of the nodes."`
	Check     string  `json:"check"`
	Pages     int     `json:"pages" doc:"A message of several problems counts for the check under whose problem it was told."`
	Reminders int     `json:"reminders" doc:"Those of the pages that repeat."`
	PerWeek   []int   `json:"perWeek"`
	Problems  int     `json:"problems" doc:"That opened in the period."`
	Nodes     int     `json:"nodes" doc:"That had them."`
	Closed    int     `json:"closed" doc:"Those of them that have closed."`
	Unacked   int     `json:"unacked" doc:"Those that closed without an acknowledgement."`
	Typical   float64 `json:"typical" doc:"Seconds from opening to closing: half of those that closed were shorter."`
	Flaps     int     `json:"flaps" doc:"How often an event of it began to flap."`
}

// NoisyRoute counts the pages of one route to one handler.
type NoisyRoute struct {
	Route     string `json:"route,omitempty" doc:"NAMESPACE/NAME; none: the handler is named by the check or the namespace."`
	Handler   string `json:"handler"`
	Pages     int    `json:"pages"`
	Reminders int    `json:"reminders"`
	PerWeek   []int  `json:"perWeek"`
}

// QuietCheck is a check that opened no problem.
type QuietCheck struct {
	Namespace string    `json:"namespace"`
	Check     string    `json:"check"`
	Nodes     int       `json:"nodes"`
	Made      time.Time `json:"made"`
}

// StaleSilence is a silence that needs a look.
type StaleSilence struct {
	Namespace string     `json:"namespace"`
	Name      string     `json:"name"`
	Creator   string     `json:"creator,omitempty"`
	Reason    string     `json:"reason"`
	Made      time.Time  `json:"made"`
	Until     model.Time `json:"until,omitzero"`
	Nodes     int        `json:"nodes" doc:"That it covers now."`
	Why       []string   `json:"why" doc:"Why it is listed, in words."`
}
