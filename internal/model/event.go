package model

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// HistoryDepth is the number of latest statuses that an event keeps.
const HistoryDepth = 21

// Event is the present state of one check (or trigger) on one node, such as CRITICAL. It has more than 25 fields
// because it is one flat JSON object that people, scripts and message templates read by these names.
type Event struct {
	// Subject.
	Namespace string  `json:"namespace"`
	Node      string  `json:"node"`
	NodeID    NodeID  `json:"nodeId"`
	Check     string  `json:"check"`
	CheckID   CheckID `json:"checkId"`

	// Last result.
	Status   Status    `json:"status"`
	Severity Severity  `json:"severity"`
	Output   string    `json:"output"`
	Executed time.Time `json:"executed"` // time of the run: time of receipt minus the age of the result on arrival
	Received time.Time `json:"received"`
	Duration Duration  `json:"duration,omitempty"` // duration of the run

	// Judgement over time.
	History      []Status  `json:"history"`          // oldest first, at most HistoryDepth
	Occurrences  uint32    `json:"occurrences"`      // results in a row with this status
	Watermark    uint32    `json:"watermark"`        // highest value of Occurrences since the present failure began, as in Sensu
	State        string    `json:"state"`            // passing, failing or flapping
	Change       uint32    `json:"totalStateChange"` // percent of changes in History, younger ones weigh more; 0 until it is full
	LastOK       time.Time `json:"lastOK,omitzero"`
	Changed      time.Time `json:"changed,omitzero"` // time of the latest change of Status
	StateChanges uint32    `json:"stateChanges"`     // number of changes of Status so far

	// Origin of the results.
	Results uint64       `json:"results"`           // number of results ever applied
	Lost    uint64       `json:"lost,omitempty"`    // number of results that the agent's full spool dropped
	Stream  StreamID     `json:"stream"`            // stream of the last result
	Number  uint64       `json:"number"`            // number of the last result in its stream
	Order   ResultDigest `json:"order,omitempty"`   // digest of all applied results; absent: unknown
	RanBy   string       `json:"ranBy,omitempty"`   // for a proxy node: the node that ran the check, NAME or NAMESPACE/NAME
	Expired bool         `json:"expired,omitempty"` // a missed deadline, and not a result, set the status

	Problem *Problem     `json:"problem,omitempty"` // the open problem; nil: none
	Hooks   []HookResult `json:"hooks,omitempty"`   // hook results of the last result; only in API answers about one event
	Values  []Value      `json:"values,omitempty"`  // values of the last result; only in API answers about one event
}

// StreamID is the id of one agent's stream, a numbered sequence of check results and other signals. The agent's
// spool creates it. Text and JSON have 16 hexadecimal digits: many JSON readers round numbers of 64 bits.
type StreamID uint64

// String formats the id as 16 hexadecimal digits.
func (s StreamID) String() string { return fmt.Sprintf("%016x", uint64(s)) }

// MarshalText encodes the stream id as 16 hexadecimal digits.
func (s StreamID) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText decodes 16 hexadecimal digits.
func (s *StreamID) UnmarshalText(text []byte) error {
	n, err := strconv.ParseUint(string(text), 16, 64)
	if err != nil {
		return Errorf(Invalid, "stream %q is not a hexadecimal number of 64 bits", text)
	}
	*s = StreamID(n)
	return nil
}

// Problem is a failure, from the first failing event (opening) to the recovery (closing). Its id is the
// deduplication key everywhere.
type Problem struct {
	ID         string       `json:"id"` // derived from journal position, node and source: the same after any replay
	NodeID     NodeID       `json:"nodeId"`
	Source     Source       `json:"-"`                    // the API shows the source with its name
	Definition DefinitionID `json:"definition,omitempty"` // definition of the check by which its results were judged; empty for other sources
	Status     Status       `json:"status"`               // worst status so far
	Severity   Severity     `json:"severity"`
	Opened     time.Time    `json:"opened"`
	Closed     time.Time    `json:"closed,omitzero"`
	Output     string       `json:"output"` // output of the result that opened the problem
	Ack        *Ack         `json:"acknowledged,omitempty"`
	// Labels and Description are of its trigger, as they were at the last change of the trigger.
	Labels      map[string]string `json:"labels,omitempty"`
	Description string            `json:"description,omitempty"`
	KeptOutputs int               `json:"-"` // number of changed outputs that history kept of the open problem
}

// OwnLabels returns the labels of the problem itself, without labels of the node. A nil problem has none.
func (p *Problem) OwnLabels() map[string]string {
	if p == nil {
		return nil
	}
	return p.Labels
}

// Ack says which person takes care of a problem, since when and until when. It is the acknowledgement of the problem.
// It ends at the latest when the problem closes.
type Ack struct {
	By    string    `json:"by"`
	Note  string    `json:"note,omitempty"`
	At    time.Time `json:"at"`
	Until time.Time `json:"until,omitzero"` // zero: until the problem ends
}

// Active reports whether the acknowledgement exists and has not yet expired at the time now
func (a *Ack) Active(now time.Time) bool {
	return a != nil && (a.Until.IsZero() || now.Before(a.Until))
}

// MaxProblemOutputs bounds the changed outputs that history keeps of one open problem.
const MaxProblemOutputs = 20

// Status is the outcome of a check (OK, WARNING, CRITICAL or UNKNOWN), with the numbers of Nagios.
type Status uint8

const (
	OK Status = iota
	Warning
	Critical
	Unknown
)

var statusNames = [...]string{"OK", "WARNING", "CRITICAL", "UNKNOWN"}

// String returns the name of the status, such as CRITICAL.
func (s Status) String() string {
	if int(s) < len(statusNames) {
		return statusNames[s]
	}
	return "INVALID"
}

// ParseStatus returns the status for a digit 0–3 or a name, ignoring upper and lower case.
func ParseStatus(text string) (Status, bool) {
	for i, name := range statusNames {
		if equalFold(text, name) || (len(text) == 1 && int(text[0]-'0') == i) {
			return Status(i), true
		}
	}
	return 0, false
}

// equalFold reports whether two ASCII texts are equal except for upper and lower case.
func equalFold(a, b string) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range len(a) {
		if a[i]|0x20 != b[i]|0x20 {
			return false
		}
	}
	return true
}

// Severity says how bad a problem is for people, from information to disaster. All problem sources, such as checks and
// triggers, have the same scale.
type Severity uint8

const (
	NotClassified Severity = iota
	Information
	SeverityWarning
	Average
	High
	Disaster
)

var severityNames = [...]string{"not classified", "information", "warning", "average", "high", "disaster"}

// String returns the name of the severity, such as high.
func (s Severity) String() string {
	if int(s) < len(severityNames) {
		return severityNames[s]
	}
	return "invalid"
}

// DefaultSeverity returns the severity of a status for checks that declare no severity.
func DefaultSeverity(s Status) Severity {
	switch s {
	case Warning:
		return SeverityWarning
	case Critical:
		return High
	case Unknown:
		return Average
	}
	return NotClassified
}

// ParseSeverity returns the severity with the given name, ignoring upper and lower case.
func ParseSeverity(text string) (Severity, bool) {
	for i, name := range severityNames {
		if strings.EqualFold(text, name) {
			return Severity(i), true
		}
	}
	return 0, false
}

// SeverityNames returns the names of all severities, lowest first.
func SeverityNames() []string { return severityNames[:] }

// SourceKind is the kind of a problem's source, such as a check or a trigger. History stores its numbers: a number is
// never reused for another kind.
type SourceKind uint8

// SourceCheck is a check: results of agents, keepalives and the server's own events.
const SourceCheck SourceKind = 0

// SourceTrigger is a trigger of a Template: the id is the Template's, the instance the trigger's name.
const SourceTrigger SourceKind = 1

// SourceDirective is the compliance of a node with a Directive: the id is the Directive's, the instance ComplianceInstance.
const SourceDirective SourceKind = 2

// SourceRule is an alert of a RuleGroup: the id is the group's, the instance the alert's name with its labels.
const SourceRule SourceKind = 3

// ComplianceInstance is the instance of all events of Directives: people write DIRECTIVE:compliance. No trigger has this
// name.
const ComplianceInstance = "compliance"

// sourceNames has the words of the kinds.
var sourceNames = [...]string{SourceCheck: "check", SourceTrigger: "trigger", SourceDirective: "directive", SourceRule: "rule"}

// unnamedSource is the prefix of the text for a kind that this release does not know.
const unnamedSource = "source-"

// String returns the name of the problem source's kind, such as check.
func (k SourceKind) String() string {
	if int(k) < len(sourceNames) {
		return sourceNames[k]
	}
	return unnamedSource + strconv.Itoa(int(k))
}

// Label formats a problem's source for people, as NAME for a check, else as KIND NAME. A check is NAME, any
// other source is KIND NAME, such as trigger NAME.
func (k SourceKind) Label(name string) string {
	if k == SourceCheck || name == "" {
		return name
	}
	return k.String() + " " + name
}

// ParseSourceKind returns the kind of problem source with the given name, such as check.
func ParseSourceKind(text string) (SourceKind, error) {
	if k := slices.Index(sourceNames[:], text); k >= 0 {
		return SourceKind(k), nil
	}
	if digits, ok := strings.CutPrefix(text, unnamedSource); ok {
		if n, err := strconv.ParseUint(digits, 10, 8); err == nil {
			return SourceKind(n), nil
		}
	}
	return 0, Errorf(Invalid, "unknown kind of problem source %q", text).WithHint("use one of: %s", strings.Join(sourceNames[:], ", "))
}

// MarshalText encodes the kind of a problem source as its name, such as check.
func (k SourceKind) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// UnmarshalText decodes the kind of a problem source from its name, such as check.
func (k *SourceKind) UnmarshalText(text []byte) (err error) {
	*k, err = ParseSourceKind(string(text))
	return err
}

// Source identifies the check, trigger or other resource on a node that causes a problem. ID is an id of the
// kind (for a check the CheckID). Instance tells several failures of one source on one node apart (a file
// system, an interface, an index), and is empty for checks. The directory holds the name of the source.
type Source struct {
	Kind     SourceKind `json:"kind"`
	ID       uint32     `json:"id"`
	Instance string     `json:"instance,omitempty"`
}

// CheckSource identifies a check as the source of a problem.
func CheckSource(id CheckID) Source { return Source{Kind: SourceCheck, ID: uint32(id)} }

// TriggerSource identifies a trigger of a Template as the source of a problem.
func TriggerSource(template UnitID, name string) Source {
	return Source{Kind: SourceTrigger, ID: uint32(template), Instance: name}
}

// DirectiveSource identifies a Directive, with which a node should comply, as the source of a problem.
func DirectiveSource(directive UnitID) Source {
	return Source{Kind: SourceDirective, ID: uint32(directive), Instance: ComplianceInstance}
}

// InstanceSource identifies the trigger, directive or alert that causes a problem, from resource id and event
// instance. The events of these resources have instances.
func InstanceSource(unit UnitID, instance string) Source {
	switch {
	case instance == ComplianceInstance:
		return DirectiveSource(unit)
	case IsAlertInstance(instance):
		return RuleSource(unit, instance)
	}
	return TriggerSource(unit, instance)
}

// Check returns the id of the check that causes the problem, or zero if another source does.
func (s Source) Check() CheckID {
	if s.Kind != SourceCheck {
		return 0
	}
	return CheckID(s.ID)
}

// CommandName formats a problem's source as muster commands write the source, such as CHECK or
// TEMPLATE:TRIGGER. A check is NAME, a trigger is TEMPLATE:TRIGGER.
func (s Source) CommandName(name string) string {
	if s.Instance == "" {
		return name
	}
	return name + ":" + s.Instance
}

// PlaceholderName returns a name such as check-1234 for a problem source whose real name is no longer known
func (s Source) PlaceholderName() string { return fmt.Sprintf("%s-%d", s.Kind, s.ID) }

// ResultDigest is a checksum over a list of results, to detect lost or repeated results. It covers the sequence
// numbers. Zero: no result. Snapshots hold it (docs/snapshot-format.md), so the function must not change.
type ResultDigest uint32

// orderStep is the factor of the digest. It is odd, so that no bit of an older result is lost, and 3 modulo 8, so that
// its powers modulo 2^32 repeat as late as possible.
const orderStep ResultDigest = 0x9e3779b3

// Append returns the digest that results from adding one more result. The agent's stream id and the number identify
// the result.
func (o ResultDigest) Append(stream, number uint64) ResultDigest {
	x := (stream ^ number) + 0x9e3779b97f4a7c15
	x = (x ^ x>>32) * 0xd6e8feb86659fd93
	x = (x ^ x>>32) * 0xd6e8feb86659fd93
	return o*orderStep + ResultDigest(x>>32)
}

// Prepend returns the digest of two joined lists of results, from the digest of each list. The receiver is the digest
// of the second list, with `these` results. So the digest of a later list can be computed first and joined with the
// earlier list afterwards.
func (o ResultDigest) Prepend(others ResultDigest, these uint64) ResultDigest {
	for step := orderStep; these > 0; these >>= 1 {
		if these&1 > 0 {
			others *= step
		}
		step *= step
	}
	return others + o
}

// String formats the digest as 8 hexadecimal digits.
func (o ResultDigest) String() string { return fmt.Sprintf("%08x", uint32(o)) }

// MarshalText encodes the digest as 8 hexadecimal digits.
func (o ResultDigest) MarshalText() ([]byte, error) { return []byte(o.String()), nil }

// UnmarshalText decodes the digest from 8 hexadecimal digits.
func (o *ResultDigest) UnmarshalText(text []byte) error {
	n, err := strconv.ParseUint(string(text), 16, 32)
	if err != nil {
		return Errorf(Invalid, "order %q is not a hexadecimal number of 32 bits", text)
	}
	*o = ResultDigest(n)
	return nil
}

// HookResult is the output of a hook, a command that a check runs after itself
type HookResult struct {
	Name     string   `json:"name"`
	Status   Status   `json:"status"`
	Output   string   `json:"output"`
	Cut      uint64   `json:"cut,omitempty"` // number of bytes that were cut from the output
	Duration Duration `json:"duration,omitempty"`
	ExitCode uint32   `json:"-"` // as the hook's command ended; 0 with another Status: unknown
}

// Value is one number that a check measured, parsed from its output.
type Value struct {
	Name  string            `json:"name"`
	Tags  map[string]string `json:"tags,omitempty"`
	Value float64           `json:"value"`       // finite
	At    time.Time         `json:"at,omitzero"` // time in the output, to the millisecond; zero: the time of the run
}

// MetricFormats are the formats of outputs from which values can be parsed.
var MetricFormats = [...]string{"nagios", "graphite", "influxdb", "opentsdb", "prometheus"}

// NoMetrics is the metric format of a check whose output has no numbers.
const NoMetrics = "none"

// Bounds of hooks and values in a result.
const (
	MaxHooks      = 16       // hooks of one check, and hook results of one result
	MaxHookOutput = 32 << 10 // bytes of one hook's output
	MaxValues     = 1000     // values of one result
	MaxValueTags  = 32       // tags of one value
)

// RunAnswer is a piece of output that a node returns when a person runs a check or command.
type RunAnswer struct {
	Node       NodeID
	Output     []byte
	Last       bool // this piece is the last one; only the last piece has the following fields
	Status     Status
	Duration   time.Duration
	Cut        uint64 // bytes of output that were cut, on the agent or on the server
	Refused    string // reason why the node ran nothing
	EndUnknown string // reason why the end of the run is unknown
}

// sensuMetricFormats has Sensu's names of MetricFormats, in the same order.
var sensuMetricFormats = [...]string{"nagios_perfdata", "graphite_plaintext", "influxdb_line", "opentsdb_line", "prometheus_text"}

// SensuMetricFormat returns Sensu's name of a metric format, or an empty text if Sensu has no such format.
func SensuMetricFormat(format string) string {
	if i := slices.Index(MetricFormats[:], format); i >= 0 {
		return sensuMetricFormats[i]
	}
	return ""
}

// MetricFormatOfSensu returns the metric format for Sensu's name of the format, or "" without such a format.
func MetricFormatOfSensu(name string) string {
	if i := slices.Index(sensuMetricFormats[:], name); i >= 0 {
		return MetricFormats[i]
	}
	return ""
}
