package loadcmd

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/load/folder"
	"github.com/muster-fleet/muster/internal/load/judge"
	"github.com/muster-fleet/muster/internal/load/number"
	"github.com/muster-fleet/muster/internal/load/observe"
	"github.com/muster-fleet/muster/internal/load/plan"
	"github.com/muster-fleet/muster/internal/load/play"
	"github.com/muster-fleet/muster/internal/load/scenario"
	"github.com/muster-fleet/muster/internal/load/simulated"
	"github.com/muster-fleet/muster/internal/load/subject"
	"github.com/muster-fleet/muster/internal/load/usage"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pause"
	"github.com/muster-fleet/muster/internal/version"
)

// valuesFlags are the flags that do something in a run of values or directives.
var valuesFlags = map[string]bool{"quick": true, "scale": true, "seed": true, "out": true, "title": true, "server-binary": true, "server-flag": true, "max-lag": true}

// signalsOf returns the signals that the agents of a scenario send.
func signalsOf(sc *scenario.Scenario) (signals, error) {
	if sc.ComponentRate() > 0 {
		p, err := plan.NewDirectives(sc)
		if err != nil {
			return nil, err
		}
		return &directiveSignals{class: &sc.Agents[0], plan: p, reader: play.RunReader{Plan: p, Namespace: simulated.Namespace, Name: func(node int) string { return simulated.MemberName(p.Class, node) }}}, nil
	}
	p, err := plan.New(sc)
	if err != nil {
		return nil, err
	}
	return &valueSignals{plan: p, sc: sc}, nil
}

// signals is what the agents of a run send besides results of checks, with the plan and the judge of it.
type signals interface {
	timing() *plan.Timing
	member(node int) (class string, number int)
	resources() []model.Resource
	start(r *valuesRun, o *play.Options) error // fills in what depends on the signals
	read(ctx context.Context) (observe.Line, error)
	judge(lines []observe.Line) []judge.Finding
	describe(out *judge.Report) (items int) // fills in what is of the signals alone
}

// playValues plays a scenario whose agents send values of items, or run directives.
func (o *options) playValues(ctx context.Context, cmd *cobra.Command, sc *scenario.Scenario, say func(string, ...any)) error {
	var wrong error
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if !valuesFlags[f.Name] && wrong == nil {
			wrong = model.Errorf(model.Unsupported, "--%s does nothing in a run of values or directives", f.Name).WithHint("leave it out; the run starts a server of its own")
		}
	})
	if wrong != nil {
		return wrong
	}
	of, err := signalsOf(sc)
	if err != nil {
		return err
	}
	if lacks := scenario.ThisMachine().Lacks(sc); lacks != "" {
		return model.Errorf(model.Limited, "this machine cannot hold the run: %s", lacks).WithHint("--quick plays as many agents as it carries, --scale 0.1 a tenth")
	}
	r := valuesRun{signals: of, sc: sc, say: say, path: o.out, report: judge.Report{Title: o.title, At: time.Now().UTC().Truncate(time.Second), Command: strings.Join(os.Args, " ")}}
	if r.report.Title == "" {
		r.report.Title = sc.FullTitle()
	}
	if r.path == "" {
		r.path = folder.Name(sc.Name, time.Now())
	}
	if err := os.MkdirAll(r.path, 0o755); err != nil {
		return model.Errorf(model.Invalid, "make the folder of the report: %w", err).WithHint("name one with --out that can be made and written to")
	}
	say("%s: %s", sc.FullTitle(), sc.Brief())
	began := time.Now()
	r.server, err = subject.Start(ctx, subject.Options{Binary: o.binary, Flags: append(slices.Clone(sc.Server.Flags), o.flags...), Env: o.env, Cores: sc.Server.Cores, Say: say, Prepare: r.prepare})
	if err != nil {
		return err
	}
	defer r.server.Stop()
	if r.prepared.After(began) {
		began = r.prepared
	}
	used := usage.OfProcess(r.server.PID())
	r.startup = observe.Startup{Seconds: time.Since(began).Seconds(), CPU: used.CPU.Seconds(), RSS: used.RSS}
	if err := r.run(ctx); err != nil {
		return err
	}
	fmt.Fprintf(cmd.OutOrStdout(), "%s\n%sreport: %s\n", r.report.Title, r.report.Text(), r.path)
	return valuesVerdict(&r.report)
}

// valuesVerdict is nil where all is as it should be.
func valuesVerdict(rep *judge.Report) error {
	switch {
	case len(rep.Findings) > 0:
		return &failed{model.Errorf(model.Invalid, "the run failed: %s: %d", rep.Findings[0].Kind, rep.Findings[0].Count), exitLost}
	case rep.Stopped != "":
		return &failed{model.Errorf(model.Invalid, "nothing was compared: %s", rep.Stopped).WithHint("play it again"), exitStopped}
	case len(rep.Missed) > 0:
		return &failed{model.Errorf(model.Invalid, "the run failed: %s", strings.Join(rep.Missed, "; ")), exitMissed}
	}
	return nil
}

// valuesRun is one run of values or directives.
type valuesRun struct {
	signals
	sc       *scenario.Scenario
	server   *subject.Subject
	prepared time.Time // the data folder is filled
	startup  observe.Startup
	report   judge.Report
	path     string
	say      func(string, ...any)
}

// prepare creates the nodes, groups and all that the nodes are assigned.
func (r *valuesRun) prepare(ctx context.Context, s *intent.Service) error {
	if err := simulated.Prepare(ctx, s, r.sc); err != nil {
		return err
	}
	_, err := s.Apply(ctx, intent.Actor{User: "load", Whence: "local", Why: "assignments for " + r.sc.Name}, r.resources(), intent.ApplyOptions{Yes: true})
	r.prepared = time.Now()
	return err
}

// declare makes a resource of the namespace of load runs.
func declare(name string, spec model.Spec) model.Resource {
	return simulated.Resource(model.Metadata{Name: name, Namespace: simulated.Namespace}, spec)
}

// name returns the name of a node of the plan.
func (r *valuesRun) name(node int) string {
	return simulated.MemberName(r.member(node))
}

// uid returns the id of a node of the plan.
func (r *valuesRun) uid(node int) uuid.UUID {
	class, number := r.member(node)
	return simulated.MemberUID(r.sc.Seed, class, number)
}

// run plays the plan, reads what the server has then, judges it and writes the report.
func (r *valuesRun) run(ctx context.Context) error {
	file := filepath.Join(r.path, observationLog)
	log := observe.NewLog(file)
	options := play.Options{Scenario: r.sc, Timing: *r.timing(), Booted: time.Now(), Addr: r.server.Plain, Name: r.name, UID: r.uid, Server: r.server, Heap: r.heap, Log: log,
		Say: r.say, Startup: &r.startup}
	if err := r.start(r, &options); err != nil {
		return errors.Join(err, log.Close())
	}
	profiling, end := context.WithCancel(ctx)
	defer end()
	go r.profile(profiling)
	err := play.Play(ctx, options)
	r.keepServerLog(ctx)
	if err != nil {
		return errors.Join(err, log.Close())
	}
	lines, err := readLog(file)
	if err != nil {
		return errors.Join(err, log.Close())
	}
	r.say("all is sent: reading what the server has")
	last, err := r.readAll(ctx, lines)
	if err != nil {
		return errors.Join(err, log.Close())
	}
	log.Append(last)
	if err := log.Close(); err != nil {
		return err
	}
	out := &r.report
	out.Commit = version.Get().Commit
	if err := judgeSignals(out, r.signals, r.sc, append(lines, last)); err != nil {
		return err
	}
	out.Files = map[string]string{observationLog: "what the loader saw, a line each second and node, and the server's state: muster load judge judges it again", "server.log": "log of the server under test"}
	data, err := json.MarshalIndent(out, "", "  ")
	if err == nil {
		err = os.WriteFile(filepath.Join(r.path, "values.json"), append(data, '\n'), 0o644)
	}
	return err
}

// judgeSignals fills in the figures and the findings of a run of values or directives.
func judgeSignals(out *judge.Report, of signals, sc *scenario.Scenario, lines []observe.Line) error {
	warmup := time.Duration(0)
	for _, phase := range sc.Phases {
		warmup += time.Duration(phase.Warmup)
	}
	items := of.describe(out)
	if !slices.ContainsFunc(lines, func(l observe.Line) bool { return l.State != nil || l.Runs != nil }) {
		out.Compared, out.Stopped = "nothing", "the loader ended before it read the server's state"
	}
	out.Figures, out.Findings = judge.Measure(of.timing(), items, lines, warmup), of.judge(lines)
	return out.Hold(sc.Objectives)
}

// judgeValuesAgain judges the log of a run of values or directives.
func judgeValuesAgain(start *observe.Start, lines []observe.Line) (*judge.Report, error) {
	if start.Scenario == nil {
		return nil, model.Errorf(model.Invalid, "the log has no scenario").WithHint("play it again with this version")
	}
	of, err := signalsOf(start.Scenario)
	if err != nil {
		return nil, err
	}
	out := &judge.Report{Title: start.Scenario.FullTitle(), At: start.Unix}
	return out, judgeSignals(out, of, start.Scenario, lines)
}

// readLog reads an observation log.
func readLog(path string) ([]observe.Line, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return observe.Read(file)
}

// settleWithin is how long the server may take to apply what it acknowledged.
const settleWithin = time.Minute

// readAll reads what the server has when its views have applied the journal: until nothing is missing, or for some time.
func (r *valuesRun) readAll(ctx context.Context, lines []observe.Line) (observe.Line, error) {
	r.settle(ctx)
	for deadline := time.Now().Add(settleWithin); ; {
		state, err := r.read(ctx)
		if err != nil || len(r.judge(append(lines, state))) == 0 || time.Now().After(deadline) {
			return state, err
		}
		if err := pause.For(ctx, 2*time.Second); err != nil {
			return state, err
		}
	}
}

// settle waits until the server applies no more signals.
func (r *valuesRun) settle(ctx context.Context) {
	last := -1.0
	for range int(settleWithin / time.Second) {
		m := usage.Metrics(r.server.Admin)
		if now := m["muster_metric_values_total"] + m["muster_metric_verdicts_total"] + m["muster_event_signals_received_total"]; now == last {
			return
		} else {
			last = now
		}
		if pause.For(ctx, time.Second) != nil {
			return
		}
	}
}

// heap returns the bytes of the server's heap in use, behind a collection.
func (r *valuesRun) heap(ctx context.Context) (float64, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, r.server.Admin+"/debug/pprof/heap?gc=1&debug=1", nil)
	if err != nil {
		return 0, err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(string(text), "# HeapAlloc = ")
	number, _, _ := strings.Cut(rest, "\n")
	return strconv.ParseFloat(number, 64)
}

// profileSeconds is the length of a profile.
const profileSeconds = 8

// profile profiles the server before the first fault, if the run is long enough.
func (r *valuesRun) profile(ctx context.Context) {
	first := r.timing().Steady
	for _, f := range r.timing().Faults {
		first = min(first, time.Duration(f.At))
	}
	ramp := time.Duration(r.sc.Phases[0].Ramp)
	if first < 4*profileSeconds*time.Second || pause.For(ctx, ramp+first/2) != nil {
		return
	}
	if _, err := r.server.Profile(ctx, filepath.Join(r.path, "profiles"), "steady", profileSeconds); err != nil && ctx.Err() == nil {
		r.say("warning: %v", err)
	}
}

// keepServerLog copies the server's log into the folder.
func (r *valuesRun) keepServerLog(ctx context.Context) {
	var log bytes.Buffer
	if r.server.CopyLog(ctx, &log) == nil {
		_ = os.WriteFile(filepath.Join(r.path, "server.log"), log.Bytes(), 0o644)
	}
}

// valueSignals is the signals of a run of values.
type valueSignals struct {
	plan   *plan.Plan
	sc     *scenario.Scenario
	reader play.Reader
}

func (v *valueSignals) timing() *plan.Timing { return &v.plan.Timing }

func (v *valueSignals) member(node int) (class string, number int) {
	c := v.plan.Class(node)
	return c.Name, node - c.First
}

func (v *valueSignals) resources() (list []model.Resource) {
	for i := range v.plan.Classes {
		list = append(list, declare(v.plan.Classes[i].Name, v.plan.Classes[i].Template()))
	}
	return list
}

func (v *valueSignals) start(r *valuesRun, o *play.Options) error {
	v.reader = play.Reader{API: r.server.API, Plan: v.plan, Namespace: simulated.Namespace, Name: r.name, Started: time.Now(), Seed: v.sc.Seed}
	o.Source, o.Query, o.Offered = play.NewValues(v.plan), v.reader.Query, float64(v.plan.Values())/v.plan.Steady.Seconds()
	return nil
}

func (v *valueSignals) read(ctx context.Context) (observe.Line, error) {
	state, err := v.reader.Read(ctx)
	return observe.Line{State: state}, err
}

func (v *valueSignals) judge(lines []observe.Line) []judge.Finding {
	return judge.Judge(v.plan, lines, lines[len(lines)-1].State)
}

func (v *valueSignals) describe(out *judge.Report) (items int) {
	out.Unit = judge.Value
	out.Compared = fmt.Sprintf("count and sum of %s series, every value of 16 nodes at most, the problems of all triggers", number.Count(v.plan.Items()))
	return v.plan.Items()
}

// directiveSignals is the signals of a run of directives.
type directiveSignals struct {
	class  *scenario.Class
	plan   *plan.Directives
	reader play.RunReader
}

func (d *directiveSignals) timing() *plan.Timing { return &d.plan.Timing }

func (d *directiveSignals) member(node int) (class string, number int) { return d.plan.Class, node }

func (d *directiveSignals) resources() []model.Resource {
	list := d.plan.Resources(declare)
	for node := range d.plan.Nodes {
		if spec := d.plan.Node(node); spec != nil {
			of := declare(simulated.MemberName(d.plan.Class, node), spec)
			of.Metadata.Labels = simulated.MemberLabels(d.class, node)
			list = append(list, of)
		}
	}
	return list
}

func (d *directiveSignals) start(r *valuesRun, o *play.Options) error {
	r.say("%s", d.plan.Describe())
	authority, err := r.server.Authority()
	if err != nil {
		return err
	}
	source, err := play.NewDirectives(d.plan, o.Booted, func(node int) (tls.Certificate, error) { return simulated.CertificateOf(authority, r.uid(node)) })
	d.reader.API = r.server.API
	o.Source, o.Query, o.Offered = source, d.reader.Query, d.plan.Rate()
	o.Edit = func(ctx context.Context, edits int) error {
		return simulated.Apply(ctx, r.server.API, "change of a load run", d.plan.Edited(edits, declare))
	}
	return err
}

func (d *directiveSignals) read(ctx context.Context) (observe.Line, error) {
	state, err := d.reader.Read(ctx)
	return observe.Line{Runs: state}, err
}

func (d *directiveSignals) judge(lines []observe.Line) []judge.Finding {
	return judge.JudgeRuns(d.plan, lines, lines[len(lines)-1].Runs)
}

func (d *directiveSignals) describe(out *judge.Report) (directives int) {
	out.Unit = judge.Component
	out.Compared = "statuses of all components by node, nodes of all directives; of 16 nodes at most each status, each entry of history, all signatures and the inventory"
	return d.plan.Runs()
}
