package loadcmd

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/load/folder"
	"github.com/muster-fleet/muster/internal/load/judge"
	"github.com/muster-fleet/muster/internal/load/observe"
	"github.com/muster-fleet/muster/internal/load/plan"
	"github.com/muster-fleet/muster/internal/load/play"
	"github.com/muster-fleet/muster/internal/load/report"
	"github.com/muster-fleet/muster/internal/load/scenario"
	"github.com/muster-fleet/muster/internal/load/simulated"
	"github.com/muster-fleet/muster/internal/load/subject"
	"github.com/muster-fleet/muster/internal/load/usage"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pause"
	"github.com/muster-fleet/muster/internal/version"
)

// hasSignals reports whether agents of a scenario send values or runs of directives.
func hasSignals(sc *scenario.Scenario) bool { return sc.ValueRate()+sc.ComponentRate() > 0 }

// signalsOf returns the signals that the agents of a scenario send.
func signalsOf(sc *scenario.Scenario) (signals, error) {
	if sc.ComponentRate() > 0 {
		p, err := plan.NewDirectives(sc)
		if err != nil {
			return nil, err
		}
		return &directiveSignals{sc: sc, plan: p, reader: play.RunReader{Plan: p, Namespace: simulated.Namespace, Name: func(node int) string { return simulated.MemberName(p.Class, node) }}}, nil
	}
	p, err := plan.New(sc)
	if err != nil {
		return nil, err
	}
	return &valueSignals{plan: p, sc: sc}, nil
}

// signals is the plan of a run of values or directives, with the reader and the judge of it.
type signals interface {
	timing() *plan.Timing
	member(node int) (class string, number int)
	resources() []model.Resource
	start(r *signalRun, o *play.Options) error // fills in what depends on the signals
	read(ctx context.Context) (observe.Line, error)
	report(lines []observe.Line) *report.Report
}

// signalRun is one run of values or directives.
type signalRun struct {
	signals
	sc       *scenario.Scenario
	server   *subject.Subject
	prepared time.Time // the data folder is filled
	startup  observe.Startup
	maxLag   time.Duration // of the generator; 0: the usual one
	path     string
	say      func(string, ...any)
}

// againstSignals plays a scenario of values or directives with a server of the run's own.
func (o *options) againstSignals(ctx context.Context, sc *scenario.Scenario, kept *folder.Folder, say func(string, ...any)) (*report.Report, error) {
	of, err := signalsOf(sc)
	if err != nil {
		return nil, err
	}
	r := &signalRun{signals: of, sc: sc, say: say, path: kept.Path, maxLag: o.config.MaxLag}
	say("%s: %s", sc.FullTitle(), sc.Brief())
	machine, began := usage.Machine(), time.Now()
	r.server, err = subject.Start(ctx, subject.Options{Binary: o.binary, Flags: append(slices.Clone(sc.Server.Flags), o.flags...), Env: o.env, Cores: sc.Server.Cores, Say: say, Prepare: r.prepare})
	if err != nil {
		return nil, err
	}
	defer r.server.Stop()
	if r.prepared.After(began) {
		began = r.prepared
	}
	used := usage.OfProcess(r.server.PID())
	r.startup = observe.Startup{Seconds: time.Since(began).Seconds(), CPU: used.CPU.Seconds(), RSS: used.RSS}
	environment := r.server.Environment(ctx)
	lines, err := r.play(ctx)
	if err != nil {
		_, _ = keepLog(r.server, kept) // the log says why
		return nil, fallen(r.server, kept, err)
	}
	rep, v := r.report(lines), version.Get()
	rep.Machine, rep.Environment, rep.Command, rep.Version, rep.Commit, rep.Dirty = machine, environment, os.Args, v.Version, v.Commit, v.Dirty
	o.entitle(rep, sc, sc.FullTitle())
	rep.AddFile(observationLog, observationLogTitle)
	return rep, save(ctx, r.server, kept, rep)
}

// prepare creates the nodes, groups and all that the nodes are assigned.
func (r *signalRun) prepare(ctx context.Context, s *intent.Service) error {
	if err := simulated.Prepare(ctx, s, r.sc); err != nil {
		return err
	}
	_, err := s.Apply(ctx, intent.Actor{User: "load", Address: "local", Message: "assignments for " + r.sc.Name}, r.resources(), intent.ApplyOptions{Yes: true})
	r.prepared = time.Now()
	return err
}

// declare returns a resource in the namespace of load runs.
func declare(name string, spec model.Spec) model.Resource {
	return simulated.Resource(model.Metadata{Name: name, Namespace: simulated.Namespace}, spec)
}

// name returns the name of a node of the plan.
func (r *signalRun) name(node int) string {
	return simulated.MemberName(r.member(node))
}

// uid returns the id of a node of the plan.
func (r *signalRun) uid(node int) uuid.UUID {
	class, number := r.member(node)
	return simulated.MemberUID(r.sc.Seed, class, number)
}

// play plays the plan, reads what the server has then, and returns the lines of the log.
func (r *signalRun) play(ctx context.Context) (lines []observe.Line, err error) {
	file := filepath.Join(r.path, observationLog)
	log := observe.NewLog(file)
	defer func() { err = errors.Join(err, log.Close()) }()
	options := play.Options{Scenario: r.sc, Timing: *r.timing(), Booted: time.Now(), Addr: r.server.Plain, Name: r.name, UID: r.uid, Server: r.server, Heap: r.heap, Log: log,
		Say: r.say, Startup: &r.startup, MaxLag: r.maxLag}
	if err := r.start(r, &options); err != nil {
		return nil, err
	}
	profiling, end := context.WithCancel(ctx)
	defer end()
	go r.profile(profiling)
	if err := play.Play(ctx, options); err != nil {
		return nil, err
	}
	if lines, err = readLog(file); err != nil {
		return nil, err
	}
	r.say("all is sent: reading what the server has")
	last, err := r.readAll(ctx, lines)
	if err != nil {
		return nil, err
	}
	log.Append(last)
	return append(lines, last), nil
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
func (r *signalRun) readAll(ctx context.Context, lines []observe.Line) (observe.Line, error) {
	r.settle(ctx)
	for deadline := time.Now().Add(settleWithin); ; {
		state, err := r.read(ctx)
		if err != nil || len(r.report(append(lines, state)).Signals.Findings) == 0 || time.Now().After(deadline) {
			return state, err
		}
		if err := pause.For(ctx, 2*time.Second); err != nil {
			return state, err
		}
	}
}

// settle waits until the server applies no more signals.
func (r *signalRun) settle(ctx context.Context) {
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
func (r *signalRun) heap(ctx context.Context) (float64, error) {
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
func (r *signalRun) profile(ctx context.Context) {
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

func (v *valueSignals) start(r *signalRun, o *play.Options) error {
	v.reader = play.Reader{API: r.server.API, Plan: v.plan, Namespace: simulated.Namespace, Name: r.name, Started: time.Now(), Seed: v.sc.Seed}
	o.Source, o.Query, o.Offered = play.NewValues(v.plan), v.reader.Query, float64(v.plan.Values())/v.plan.Steady.Seconds()
	return nil
}

func (v *valueSignals) read(ctx context.Context) (observe.Line, error) {
	state, err := v.reader.Read(ctx)
	return observe.Line{State: state}, err
}

func (v *valueSignals) report(lines []observe.Line) *report.Report {
	return judge.Values(v.plan, v.sc, lines)
}

// directiveSignals is the signals of a run of directives.
type directiveSignals struct {
	sc     *scenario.Scenario
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
			of.Metadata.Labels = simulated.MemberLabels(&d.sc.Agents[0], node)
			list = append(list, of)
		}
	}
	return list
}

func (d *directiveSignals) start(r *signalRun, o *play.Options) error {
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

func (d *directiveSignals) report(lines []observe.Line) *report.Report {
	return judge.Directives(d.plan, d.sc, lines)
}
