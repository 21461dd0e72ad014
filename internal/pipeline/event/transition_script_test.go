package event

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/journal"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/window"
	"github.com/muster-fleet/muster/internal/wire"
)

// TestScriptsGiveExpectedTransitions runs test scripts that send results, and expects the event changes
// (transitions) in the script. The scripts are testdata/*.txt. A line is one step; testdata/README.md lists the
// words of a line.
func TestScriptsGiveExpectedTransitions(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal("no stories", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			f, err := os.Open(file)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			s := newScript(t)
			scanner := bufio.NewScanner(f)
			for line := 1; scanner.Scan(); line++ {
				s.where = fmt.Sprintf("%s:%d", file, line)
				s.runLine(scanner.Text())
			}
			s.flush()
			for _, p := range s.view.partitions {
				p.checkIndexes(t)
			}
		})
	}
}

// transitionScript runs a text script that sends results to a view and checks the event changes.
type transitionScript struct {
	t           *testing.T
	where       string
	view        *runningView
	definitions map[model.DefinitionID]*model.CheckDefinition
	number      uint64
	at          time.Duration
	down        time.Duration
	commit      *testCommit
	streams     map[string]uint64
}

// newScript returns a transitionScript without steps, on a running View
func newScript(t *testing.T) *transitionScript {
	s := &transitionScript{t: t, definitions: map[model.DefinitionID]*model.CheckDefinition{}, streams: map[string]uint64{}}
	s.view = startView(t, viewOptions{Workers: 2, Definitions: func(id model.DefinitionID) *model.CheckDefinition { return s.definitions[id] }}, nil)
	return s
}

// failLine fails the test and names the file and line of the test's script.
func (s *transitionScript) failLine(format string, args ...any) {
	s.t.Helper()
	s.t.Fatalf("%s: %s", s.where, fmt.Sprintf(format, args...))
}

// flush applies to the view the commit that the script's lines have filled.
func (s *transitionScript) flush() {
	if s.commit != nil {
		s.view.apply(s.commit)
		s.commit = nil
	}
}

// scriptArguments has the arguments of one script line. They are its first word, the words without a key, and the
// key=value words.
type scriptArguments struct {
	s     *transitionScript
	verb  string
	plain []string
	named map[string]string
}

// parse splits a script line, without its comment, into words and key=value arguments
func (s *transitionScript) parse(line string) (w scriptArguments) {
	w.s, w.named = s, map[string]string{}
	if i := strings.Index(line, "#"); i >= 0 {
		line = line[:i]
	}
	for line = strings.TrimSpace(line); line != ""; line = strings.TrimSpace(line) {
		end := strings.IndexAny(line, " \"")
		if end < 0 {
			end = len(line)
		}
		word := line[:end]
		if end < len(line) && line[end] == '"' {
			quoted, err := strconv.QuotedPrefix(line[end:])
			if err != nil {
				s.failLine("%v", err)
			}
			text, _ := strconv.Unquote(quoted)
			word, end = word+text, end+len(quoted)
		}
		line = line[end:]
		if key, value, ok := strings.Cut(word, "="); ok {
			w.named[key] = value
		} else if w.verb == "" {
			w.verb = word
		} else {
			w.plain = append(w.plain, word)
		}
	}
	return w
}

// number returns the numeric value of an argument, or the default for a missing key
func (w scriptArguments) number(key string, preset uint64) uint64 {
	text, ok := w.named[key]
	if !ok {
		return preset
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		w.s.failLine("%s: %v", key, err)
	}
	return n
}

// duration returns the duration value of an argument, or the default for a missing key
func (w scriptArguments) duration(key string, preset time.Duration) time.Duration {
	text, ok := w.named[key]
	if !ok {
		return preset
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		w.s.failLine("%s: %v", key, err)
	}
	return d
}

// has reports whether a script line contains a given word among its arguments without a key.
func (w scriptArguments) has(word string) bool {
	for _, p := range w.plain {
		if p == word {
			return true
		}
	}
	return false
}

// event returns the node and the check in a script argument of the form NODE/CHECK. The check may be the word
// keepalive.
func (w scriptArguments) event() (model.NodeID, model.CheckID) {
	node, check, _ := strings.Cut(w.plain[0], "/")
	n, _ := strconv.ParseUint(node, 10, 32)
	if check == "keepalive" {
		return model.NodeID(n), model.KeepaliveCheck
	}
	c, _ := strconv.ParseUint(check, 10, 32)
	return model.NodeID(n), model.CheckID(c)
}

// status returns the status of a key=value argument.
func (w scriptArguments) status(key string) model.Status {
	st, ok := model.ParseStatus(w.named[key])
	if !ok {
		w.s.failLine("no status %q", w.named[key])
	}
	return st
}

// runLine carries out one line of the test's script.
func (s *transitionScript) runLine(line string) {
	w := s.parse(line)
	var node model.NodeID
	var check model.CheckID
	if len(w.plain) > 0 {
		node, check = w.event()
	}
	mark := func(r *wire.Record) {
		sec := testSection(node)
		if node == 0 {
			sec = journal.All
		}
		r.Node = node
		s.commit.addRecord(sec, r)
	}
	switch w.verb {
	case "":
	case "definition":
		id := model.DefinitionID(node)
		c := &model.CheckDefinition{
			Definition: model.Definition{ID: id, Unit: model.CheckID(w.number("check", 0)), Namespace: 1}, TTL: w.duration("ttl", 0),
			FailAfter: uint32(w.number("failAfter", 1)), RecoverAfter: uint32(w.number("recoverAfter", 1)),
			FlapStart: uint32(w.number("flapStart", 0)), FlapEnd: uint32(w.number("flapEnd", 0)),
		}
		c.Sensu = w.number("sensu", 0) > 0
		if name := w.named["pipelines"]; name != "" {
			c.Pipelines = []string{name}
		}
		for st := range c.Severities {
			c.Severities[st] = model.Severity(w.number(strings.ToLower(model.Status(st).String()), uint64(model.DefaultSeverity(model.Status(st)))))
		}
		if during := w.named["except"]; during != "" {
			c.Except = []model.Span{window.SpanOfLine(during, "")}
		}
		s.definitions[id] = c
	case "at":
		s.flush()
		d, err := time.ParseDuration(w.plain[0])
		if err != nil {
			s.failLine("%v", err)
		}
		s.at, s.number = d, s.number+1
		s.commit = newCommit(s.number, d, s.down)
	case "down":
		d, err := time.ParseDuration(w.plain[0])
		if err != nil {
			s.failLine("%v", err)
		}
		s.down += d
	case "begin", "end":
		mark(&wire.Record{Kind: wire.RecordSession, Session: &wire.SessionRecord{
			Session: w.number("session", 1), Start: w.verb == "begin", Clean: w.has("clean"), NoKeepalive: w.has("visit"), EveryKeepalive: w.has("every"),
			Namespace: model.NamespaceID(w.number("namespace", 1)), Backlog: w.number("backlog", 0),
			TimeoutMs: uint32(w.duration("timeout", 0) / time.Millisecond), WarningMs: uint32(w.duration("warning", 0) / time.Millisecond),
		}})
	case "result", "keepalive", "gap":
		s.batch(w, node)
	case "started":
		mark(&wire.Record{Kind: wire.RecordStarted})
	case "forget":
		mark(&wire.Record{Kind: wire.RecordForget, Forget: &wire.ForgetRecord{Check: check, Deleted: w.has("gone"), Deregistered: w.named["deregistered"]}})
	case "resolve", "delete", "acknowledge", "unacknowledge":
		action := &wire.Action{Verb: w.verb, Check: check, By: w.named["by"], Note: w.named["note"]}
		if until := w.duration("until", 0); until > 0 {
			action.Until = uint64((epoch + int64(until)) / 1e6)
		}
		mark(&wire.Record{Kind: wire.RecordAction, Action: action})
	case "own":
		mark(&wire.Record{Kind: wire.RecordServerResult, ServerResult: &wire.ServerResult{
			Definition: model.DefinitionID(w.number("definition", 0)), Status: w.status("status"), Output: []byte(w.named["output"])}})
	case "state":
		s.flush()
		s.expect(w, node, check)
	case "none":
		s.flush()
		if got, ok := s.view.Get(node, model.CheckSource(check)); ok {
			s.failLine("there is a state: %+v", got)
		}
	case "emitted", "observed":
		s.flush()
		got := []string{}
		for _, t := range s.view.drainEmitted() {
			if (t.Kind == Observed) == (w.verb == "observed") {
				got = append(got, describeTransition(&t))
			}
		}
		want := slices.Clone(w.plain)
		for _, list := range [][]string{got, want} { // workers emit side by side: only the order of one event is defined
			slices.SortStableFunc(list, func(a, b string) int {
				a, _, _ = strings.Cut(a, ":")
				b, _, _ = strings.Cut(b, ":")
				return strings.Compare(a, b)
			})
		}
		if !slices.Equal(got, want) {
			s.failLine("emitted %q, want %q", got, want)
		}
	default:
		s.failLine("unknown word %q", w.verb)
	}
}

// describeTransition returns a change of an event as one word, such as 3/1000:OK>CRITICAL. A first result gives
// 3/1000:>CRITICAL.
func describeTransition(t *Transition) string {
	event := fmt.Sprintf("%d/%d", t.Node, t.Source.ID)
	switch t.Kind {
	case StatusChanged:
		if t.First {
			return fmt.Sprintf("%s:>%s", event, t.Status)
		}
		return fmt.Sprintf("%s:%s>%s", event, t.Previous, t.Status)
	case ProblemOpened:
		return event + ":opened"
	case ProblemClosed:
		return event + ":closed"
	case ResultsLost:
		return fmt.Sprintf("%s:lost(%d)", event, t.Count)
	case LateResult:
		return fmt.Sprintf("%s:late(%s)", event, t.Status)
	case Acknowledged:
		return event + ":acknowledged"
	case Unacknowledged:
		return event + ":unacknowledged"
	case FlappingStarted:
		return event + ":flapping"
	case FlappingEnded:
		return event + ":steady"
	case TextChanged:
		return event + ":text"
	case Beat:
		return event + ":beat"
	case Observed:
		return fmt.Sprintf("%s:%s/%d", event, t.Observation.Status, t.Observation.Occurrences)
	}
	return "?"
}

// batch executes the script command `batch`, and adds a batch of results to the commit
func (s *transitionScript) batch(w scriptArguments, node model.NodeID) {
	key := wire.StreamKey{Stream: wire.StreamID(w.number("stream", 1))}
	if w.named["lane"] == "backlog" {
		key.Lane = wire.Backlog
	}
	numbering := fmt.Sprint(node, key)
	b := &wire.Batch{StreamKey: key, First: w.number("number", s.streams[numbering]+1), NowMs: 1 << 40}
	at := b.NowMs - uint64(w.duration("age", 0)/time.Millisecond)
	last := b.First
	switch w.verb {
	case "keepalive":
		b.Signals = []wire.Signal{{Kind: wire.SignalKeepalive, AtMs: at}}
	case "gap":
		last = w.number("last", b.First)
		b.Gap = &wire.Gap{Last: last, Reason: "spool is full", Counts: []wire.GapCount{
			{Kind: wire.SignalResult, Definition: model.DefinitionID(w.number("definition", 0)), Count: last - b.First + 1}}}
	default:
		b.Signals = []wire.Signal{wire.ResultSignal(wire.Signal{Definition: model.DefinitionID(w.number("definition", 0)), AtMs: at}, wire.Result{Status: w.status("status"), DurationMs: 250, Output: []byte(w.named["output"])})}
	}
	s.streams[numbering] = last
	s.commit.addBatch(s.t, node, b)
}

// expect runs the script command `expect`, which compares the state of an event with the arguments
func (s *transitionScript) expect(w scriptArguments, node model.NodeID, check model.CheckID) {
	got, ok := s.view.Get(node, model.CheckSource(check))
	if !ok {
		s.failLine("there is no state")
	}
	since := func(ns int64) string {
		if ns == 0 {
			return "never"
		}
		return time.Duration(ns - epoch).String()
	}
	history := make([]byte, got.HistoryLen)
	for i := range history {
		history[len(history)-1-i] = '0' + byte(got.History>>(2*i)&3)
	}
	values := map[string]string{
		"status": got.Status.String(), "severity": strconv.Itoa(int(got.Severity)), "output": got.Output,
		"occurrences": fmt.Sprint(got.Occurrences), "changes": fmt.Sprint(got.StateChanges),
		"results": fmt.Sprint(got.Results), "lost": fmt.Sprint(got.Lost), "history": string(history),
		"stream": fmt.Sprint(got.Stream), "number": fmt.Sprint(got.Number),
		"received": since(got.Received), "executed": since(got.Executed), "lastOK": since(got.LastOK), "changed": since(got.Changed),
		"expired": fmt.Sprint(got.Expired), "namespace": fmt.Sprint(got.Namespace),
		"failing": fmt.Sprint(got.Failing), "passing": fmt.Sprint(got.Passing), "problem": "none",
		"watermark": fmt.Sprint(got.Watermark), "change": fmt.Sprint(got.Change), "flapping": fmt.Sprint(got.Flapping), "ack": "none",
	}
	if got.Problem != nil {
		values["problem"] = fmt.Sprintf("%s/%d", got.Problem.Status, got.Problem.Severity)
		if a := got.Problem.Ack; a != nil {
			values["ack"] = fmt.Sprintf("%s,%s,%s", a.By, a.Note, since(a.At.UnixNano()))
			if !a.Until.IsZero() {
				values["ack"] += "," + since(a.Until.UnixNano())
			}
		}
	}
	for key, want := range w.named {
		have, known := values[key]
		if !known {
			s.failLine("unknown field %q", key)
		}
		if have != want {
			s.failLine("%s is %q, want %q", key, have, want)
		}
	}
}
