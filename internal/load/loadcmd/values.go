package loadcmd

import (
	"bytes"
	"context"
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

// valuesFlags are the flags that do something in a run of values.
var valuesFlags = map[string]bool{"quick": true, "scale": true, "seed": true, "out": true, "title": true, "server-binary": true, "server-flag": true, "max-lag": true}

// playValues plays a scenario whose agents send values of items.
func (o *options) playValues(ctx context.Context, cmd *cobra.Command, sc *scenario.Scenario, say func(string, ...any)) error {
	var wrong error
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if !valuesFlags[f.Name] && wrong == nil {
			wrong = model.Errorf(model.Unsupported, "--%s does nothing in a run of values", f.Name).WithHint("leave it out; the run starts a server of its own")
		}
	})
	if wrong != nil {
		return wrong
	}
	p, err := plan.New(sc)
	if err != nil {
		return err
	}
	if lacks := scenario.ThisMachine().Lacks(sc); lacks != "" {
		return model.Errorf(model.Limited, "this machine cannot hold the run: %s", lacks).WithHint("--quick plays as many agents as it carries, --scale 0.1 a tenth")
	}
	r := valuesRun{sc: sc, plan: p, say: say, path: o.out, report: judge.Report{Title: o.title, At: time.Now().UTC().Truncate(time.Second), Command: strings.Join(os.Args, " ")}}
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
	r.server, err = subject.Start(ctx, subject.Options{Binary: o.binary, Flags: append(slices.Clone(sc.Server.Flags), o.flags...), Env: o.env, Cores: sc.Server.Cores, Say: say, Prepare: r.prepare})
	if err != nil {
		return err
	}
	defer r.server.Stop()
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
	case len(rep.Missed) > 0:
		return &failed{model.Errorf(model.Invalid, "the run failed: %s", strings.Join(rep.Missed, "; ")), exitMissed}
	}
	return nil
}

// valuesRun is one run of values.
type valuesRun struct {
	sc     *scenario.Scenario
	plan   *plan.Plan
	server *subject.Subject
	report judge.Report
	path   string
	say    func(string, ...any)
}

// prepare creates the nodes, groups and Templates.
func (r *valuesRun) prepare(ctx context.Context, s *intent.Service) error {
	if err := simulated.Prepare(ctx, s, r.sc); err != nil {
		return err
	}
	var list []model.Resource
	for i := range r.plan.Classes {
		c := &r.plan.Classes[i]
		list = append(list, simulated.Resource(model.Metadata{Name: c.Name, Namespace: simulated.Namespace}, c.Template()))
	}
	_, err := s.Apply(ctx, intent.Actor{User: "load", Whence: "local", Why: "items for " + r.sc.Name}, list, intent.ApplyOptions{Yes: true})
	return err
}

// name returns the name of a node of the plan.
func (r *valuesRun) name(node int) string {
	c := r.plan.Class(node)
	return simulated.MemberName(c.Name, node-c.First)
}

// uid returns the id of a node of the plan.
func (r *valuesRun) uid(node int) uuid.UUID {
	c := r.plan.Class(node)
	return simulated.MemberUID(r.sc.Seed, c.Name, node-c.First)
}

// run plays the plan, reads what the server has then, judges it and writes the report.
func (r *valuesRun) run(ctx context.Context) error {
	file := filepath.Join(r.path, observationLog)
	log := observe.NewLog(file)
	reader := &play.Reader{API: r.server.API, Plan: r.plan, Namespace: simulated.Namespace, Name: r.name, Started: time.Now(), Seed: r.sc.Seed}
	profiling, end := context.WithCancel(ctx)
	defer end()
	go r.profile(profiling)
	err := play.Play(ctx, play.Options{Scenario: r.sc, Plan: r.plan, Addr: r.server.Plain, Name: r.name, UID: r.uid, Server: r.server, Query: reader.Query, Heap: r.heap, Log: log, Say: r.say})
	r.keepServerLog(ctx)
	if err != nil {
		return errors.Join(err, log.Close())
	}
	lines, err := readLog(file)
	if err != nil {
		return errors.Join(err, log.Close())
	}
	r.say("all is sent: reading the series of %s items", number.Count(r.plan.Items()))
	state, err := r.read(ctx, reader, lines)
	if err != nil {
		return errors.Join(err, log.Close())
	}
	last := observe.Line{State: state}
	log.Append(last)
	if err := log.Close(); err != nil {
		return err
	}
	out := &r.report
	out.Commit = version.Get().Commit
	if err := judgeValues(out, r.plan, r.sc, append(lines, last)); err != nil {
		return err
	}
	out.Files = map[string]string{observationLog: "what the loader saw, a line each second and node, and the server's state: muster load judge judges it again", "server.log": "log of the server under test"}
	data, err := json.MarshalIndent(out, "", "  ")
	if err == nil {
		err = os.WriteFile(filepath.Join(r.path, "values.json"), append(data, '\n'), 0o644)
	}
	return err
}

// judgeValues fills in the figures and the findings of a run of values.
func judgeValues(out *judge.Report, p *plan.Plan, sc *scenario.Scenario, lines []observe.Line) error {
	warmup := time.Duration(0)
	for _, phase := range sc.Phases {
		warmup += time.Duration(phase.Warmup)
	}
	var state *observe.State
	for _, line := range lines {
		if line.State != nil {
			state = line.State
		}
	}
	out.Figures, out.Findings = judge.Measure(p, lines, warmup), judge.Judge(p, lines, state)
	if out.Compared = "nothing: the loader was killed before it read the server's state"; state != nil {
		out.Compared = fmt.Sprintf("count and sum of %s series, every value of %d nodes, the problems of all triggers", number.Count(p.Items()), len(state.Raw))
	}
	return out.Hold(sc.Objectives)
}

// judgeValuesAgain judges the log of a run of values.
func judgeValuesAgain(start *observe.Start, lines []observe.Line) (*judge.Report, error) {
	if start.Scenario == nil {
		return nil, model.Errorf(model.Invalid, "the log has no scenario").WithHint("play it again with this version")
	}
	p, err := plan.New(start.Scenario)
	if err != nil {
		return nil, err
	}
	out := &judge.Report{Title: start.Scenario.FullTitle(), At: start.Unix}
	return out, judgeValues(out, p, start.Scenario, lines)
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

// read reads what the server has when its views have applied the journal: until nothing is missing, or for some time.
func (r *valuesRun) read(ctx context.Context, reader *play.Reader, lines []observe.Line) (*observe.State, error) {
	r.settle(ctx)
	for deadline := time.Now().Add(settleWithin); ; {
		state, err := reader.Read(ctx)
		if err != nil || len(judge.Judge(r.plan, lines, state)) == 0 || time.Now().After(deadline) {
			return state, err
		}
		if err := pause.For(ctx, 2*time.Second); err != nil {
			return nil, err
		}
	}
}

// settle waits until the server applies no more values.
func (r *valuesRun) settle(ctx context.Context) {
	last := -1.0
	for range int(settleWithin / time.Second) {
		m := usage.Metrics(r.server.Admin)
		if now := m["muster_metric_values_total"] + m["muster_metric_verdicts_total"]; now == last {
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
	first := r.plan.Steady
	for _, f := range r.plan.Faults {
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
