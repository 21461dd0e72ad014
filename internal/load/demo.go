package load

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"math"
	"time"

	"github.com/google/uuid"

	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/load/outputs"
	"github.com/muster-fleet/muster/internal/load/preflight"
	"github.com/muster-fleet/muster/internal/load/simulated"
	"github.com/muster-fleet/muster/internal/model"
)

// DemoNamespace keeps the simulated fleet apart from real machines.
const DemoNamespace = "demo"

// demoTitle tells our namespace from somebody's own of that name.
const demoTitle = "A simulated fleet"

// demoInterval is every demo check's.
const demoInterval = 15 * time.Second

// demoSeed makes the same fleet after every start.
const demoSeed = 0xde30

// Demo is the simulated fleet of `muster up --demo N`: real sessions of nodes with
// plausible names, checks and outputs, some of which fail.
type Demo struct {
	Nodes   int
	Server  string
	TLS     func(uid uuid.UUID) (*tls.Config, error) // see Certificates
	Service *intent.Service
	Log     *slog.Logger
}

// Run makes the nodes and checks, and plays them until ctx ends.
func (d Demo) Run(ctx context.Context) error {
	if err := d.prepare(ctx); err != nil {
		return err
	}
	cfg, err := Config{Server: d.Server, TLS: d.TLS, Agents: d.Nodes, Checks: len(demoChecks), Interval: demoInterval,
		Generate: demoOutputs{}, checks: func(i int) string { return demoChecks[i].name },
		Nodes: func(i int) (uuid.UUID, string) { return simulated.NodeUID(demoSeed, i), demoName(i) }, Seed: demoSeed, Senders: 1,
		Parallel: 32, Log: d.Log}.withDefaults()
	if err != nil {
		return err
	}
	if err := preflight.Check(cfg.before()); err != nil {
		return err
	}
	r, err := newRun(cfg)
	if err != nil {
		return err
	}
	return r.forever(ctx)
}

// forever plays without measuring. Agents that are not ready yet are waited for.
func (r *run) forever(ctx context.Context) error {
	crew := r.open(ctx)
	defer crew.leave()
	r.deal(0)
	for r.ready.Load() < int64(r.cfg.Agents) {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(100 * time.Millisecond):
		}
	}
	crew.readers.Go(func() { r.keepHouse(ctx) })
	r.follow(forever(r.now(), never))
	for _, s := range r.senders {
		crew.readers.Go(func() { s.play(ctx) })
	}
	<-ctx.Done()
	return nil
}

// demoCheck is one check of the fleet: its command is never run, but reads as if.
type demoCheck struct {
	name    string
	command string
}

var demoChecks = [...]demoCheck{
	{name: "disk", command: "check_disk -w 20% -c 10% -p /"},
	{name: "memory", command: "check_memory -w 85 -c 95"},
	{name: "cpu-load", command: "check_load -r -w 2,1.5,1 -c 4,3,2"},
	{name: "clock", command: "check_ntp_time -H pool.example -w 0.5 -c 2"},
	{name: "ssh", command: "check_ssh localhost"},
	{name: "backup-age", command: "check_file_age -w 90000 -c 180000 -f /var/backups/latest"},
}

var demoRoles = [...]struct{ role, site string }{
	{"web", "fra"}, {"web", "ams"}, {"app", "fra"}, {"app", "ams"}, {"db", "fra"}, {"cache", "ams"}, {"mail", "fra"}, {"build", "ams"},
}

func demoRole(i int) (role, site string) {
	r := demoRoles[i%len(demoRoles)]
	return r.role, r.site
}

// demoName is like web-fra-007.
func demoName(i int) string {
	role, site := demoRole(i)
	return fmt.Sprintf("%s-%s-%03d", role, site, i/len(demoRoles)+1)
}

func (d Demo) prepare(ctx context.Context) error {
	by := intent.Who{User: "server", Whence: "local", Why: "the simulated fleet of --demo"}
	resources := []model.Resource{
		simulated.Resource(model.Metadata{Name: DemoNamespace, DisplayName: demoTitle}, &model.NamespaceSpec{}),
		simulated.Resource(model.Metadata{Name: "fleet", Namespace: DemoNamespace}, &model.GroupSpec{Where: "true"}),
	}
	for _, c := range demoChecks {
		resources = append(resources, simulated.Resource(model.Metadata{Name: c.name, Namespace: DemoNamespace}, &model.CheckSpec{
			Targets: &model.Targets{Groups: []string{"fleet"}}, Command: &model.Command{Shell: c.command},
			Interval: model.Duration(demoInterval), Alert: &model.Alert{FailAfter: 2},
		}))
	}
	if _, err := d.Service.Apply(ctx, by, resources, intent.ApplyOptions{Yes: true}); err != nil {
		return fmt.Errorf("make the checks of the simulated fleet: %w", err)
	}
	nodes := make([]intent.NewNode, d.Nodes)
	for i := range nodes {
		role, site := demoRole(i)
		nodes[i] = intent.NewNode{UID: simulated.NodeUID(demoSeed, i), Name: demoName(i), Labels: map[string]string{"role": role, "site": site}}
	}
	if err := d.Service.BulkNodes(ctx, by, DemoNamespace, nodes); err != nil {
		return fmt.Errorf("make the nodes of the simulated fleet: %w", err)
	}
	return nil
}

// Forget takes the simulated fleet away, with its namespace, if there is one.
func (d Demo) Forget(ctx context.Context) error {
	namespace := intent.Key{Kind: "Namespace", Name: DemoNamespace}
	r, err := d.Service.Get(ctx, namespace)
	if model.ClassOf(err) == model.NotFound {
		return nil
	}
	if err != nil {
		return fmt.Errorf("look for the simulated fleet: %w", err)
	}
	if r.Metadata.DisplayName != demoTitle {
		return model.Errorf(model.Conflict, "namespace %s is not that of the simulated fleet", DemoNamespace).WithHint("start without --demo")
	}
	var keys []intent.Key
	for _, k := range model.Kinds() {
		if !k.Namespaced {
			continue
		}
		list, err := d.Service.List(ctx, intent.ListQuery{Kind: k.Name, Namespace: DemoNamespace}, nil)
		if err != nil {
			return fmt.Errorf("list the simulated fleet: %w", err)
		}
		for i := range list {
			keys = append(keys, intent.KeyOf(&list[i]))
		}
	}
	by := intent.Who{User: "server", Whence: "local", Why: "--demo 0: no simulated fleet"}
	for _, keys := range [][]intent.Key{keys, {namespace}} { // a namespace goes when it is empty
		if _, err := d.Service.Delete(ctx, by, keys, intent.ApplyOptions{Yes: true}); err != nil && ctx.Err() == nil {
			return fmt.Errorf("take the simulated fleet away: %w", err)
		}
	}
	return nil
}

// demoOutputs says what a plug-in might. About one machine in forty has something
// that stays broken, one in thirty something that comes and goes over some minutes.
type demoOutputs struct{}

// fixed is what is so of one check of one machine; wave is slow: neighbours in time differ
// little.
func (demoOutputs) mood(a, c int, seq uint64) (fixed uint64, wave float64) {
	fixed = outputs.Mix(uint64(a)<<8 | uint64(c))
	runs := float64(seq%(1<<48)) / 50
	return fixed, math.Sin(runs/float64(20+fixed%13)+float64(fixed%628)/100)/2 + 0.5
}

func (d demoOutputs) Status(a, c int, chunk *model.Chunk, seq uint64, _ model.Status, _ bool) model.Status {
	fixed, wave := d.mood(a, c, seq)
	trouble := 0.0
	switch {
	case fixed%240 == 1:
		trouble = 1
	case fixed%180 == 2:
		trouble = wave
	}
	switch {
	case trouble > 0.9, trouble > 0.7 && chunk.CheckName == "ssh": // which is refused, or not
		return model.Critical
	case trouble > 0.7:
		return model.Warning
	}
	return model.OK
}

func (d demoOutputs) Output(dst []byte, a, c int, chunk *model.Chunk, seq uint64, status model.Status) []byte {
	fixed, wave := d.mood(a, c, seq)
	level := float64(status) // OK 0, WARNING 1, CRITICAL 2
	switch chunk.CheckName {
	case "disk":
		used := min(99, 35+25*outputs.Share(outputs.Mix(fixed))+4*wave+[...]float64{0, 20, 32}[status])
		return fmt.Appendf(dst, "DISK %s - free space: / %.0f MiB (%.0f%%)| /=%.0fMB;32768;36864;0;40960", status, 409.6*(100-used), 100-used, 409.6*used)
	case "memory":
		used := min(99.5, 40+20*outputs.Share(outputs.Mix(fixed))+10*wave+25*level)
		return fmt.Appendf(dst, "MEMORY %s - %.1f%% used| used=%.1f%%;85;95", status, used, used)
	case "cpu-load":
		load := 0.2 + 0.6*wave + 1.6*level
		return fmt.Appendf(dst, "LOAD %s - scaled load average: %.2f, %.2f, %.2f| load1=%.2f;2;4 load5=%.2f;1.5;3 load15=%.2f;1;2",
			status, load, load*0.9, load*0.8, load, load*0.9, load*0.8)
	case "clock":
		offset := (wave-0.5)/100 + 1.1*level
		return fmt.Appendf(dst, "NTP %s: Offset %.6f secs| offset=%.6fs;0.5;2", status, offset, offset)
	case "ssh":
		if status != model.OK {
			return append(dst, "connect to address 127.0.0.1 and port 22: Connection refused"...)
		}
		return fmt.Appendf(dst, "SSH OK - OpenSSH_10.0p2 Debian-7 (protocol 2.0) | time=%.6fs;;;0", 0.004+wave/200)
	default:
		age := 3600 + 80000*outputs.Share(outputs.Mix(fixed+seq/40)) + 50000*level
		return fmt.Appendf(dst, "FILE_AGE %s: /var/backups/latest is %.0f seconds old| age=%.0fs;90000;180000", status, age, age)
	}
}
