package demo

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"time"

	"github.com/google/uuid"

	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/kind"
	"github.com/muster-fleet/muster/internal/load"
	"github.com/muster-fleet/muster/internal/load/play"
	"github.com/muster-fleet/muster/internal/load/scenario"
	"github.com/muster-fleet/muster/internal/load/simulated"
	"github.com/muster-fleet/muster/internal/model"
)

// Namespace keeps the simulated fleet apart from real machines.
const Namespace = "demo"

// title tells our namespace from somebody's own of that name.
const title = "A simulated fleet"

// interval is every demo check's.
const interval = 15 * time.Second

// seed makes the same fleet after every start.
const seed = 0xde30

// Fleet is the simulated fleet of `muster up --demo N`: real sessions of nodes with
// plausible names, checks and outputs, some of which fail.
type Fleet struct {
	Nodes   int
	Server  string
	TLS     func(uid uuid.UUID) (*tls.Config, error) // see Certificates
	Service *intent.Service
	Log     *slog.Logger
}

// Run makes the nodes and checks, and plays them until ctx ends.
func (d Fleet) Run(ctx context.Context) error {
	if err := d.prepare(ctx); err != nil {
		return err
	}
	sc := scenario.Uniform{Agents: d.Nodes, Checks: len(checks), Interval: interval, TLS: d.TLS != nil, Seed: seed}.Scenario()
	members := simulated.Members(sc)
	for i := range members {
		members[i].UID, members[i].Name = uidOf(i), nameOf(i)
	}
	return load.Forever(ctx, load.Config{Options: play.Options{Server: d.Server, TLS: d.TLS, Scenario: sc, Members: members, Generate: words{},
		CheckName: func(i int) string { return checks[i].name }, Senders: 1, Parallel: 32, Log: d.Log}})
}

// uidOf returns the id of node i, the same after every start.
func uidOf(i int) uuid.UUID {
	return uuid.NewSHA1(uuid.NameSpaceOID, fmt.Appendf(nil, "muster load %d %d", seed, i))
}

// check is one check of the simulated fleet; its command is never run.
type check struct {
	name    string
	command string
}

var checks = [...]check{
	{name: "disk", command: "check_disk -w 20% -c 10% -p /"},
	{name: "memory", command: "check_memory -w 85 -c 95"},
	{name: "cpu-load", command: "check_load -r -w 2,1.5,1 -c 4,3,2"},
	{name: "clock", command: "check_ntp_time -H pool.example -w 0.5 -c 2"},
	{name: "ssh", command: "check_ssh localhost"},
	{name: "backup-age", command: "check_file_age -w 90000 -c 180000 -f /var/backups/latest"},
}

var roles = [...]struct{ role, site string }{
	{"web", "fra"}, {"web", "ams"}, {"app", "fra"}, {"app", "ams"}, {"db", "fra"}, {"cache", "ams"}, {"mail", "fra"}, {"build", "ams"},
}

// roleOf returns the role and site of node i.
func roleOf(i int) (role, site string) {
	r := roles[i%len(roles)]
	return r.role, r.site
}

// nameOf returns the name of node i, such as web-fra-007.
func nameOf(i int) string {
	role, site := roleOf(i)
	return fmt.Sprintf("%s-%s-%03d", role, site, i/len(roles)+1)
}

// prepare creates the namespace, checks and nodes of the fleet.
func (d Fleet) prepare(ctx context.Context) error {
	by := intent.Actor{User: "server", Address: "local", Message: "the simulated fleet of --demo"}
	resources := []model.Resource{
		simulated.Resource(model.Metadata{Name: Namespace, DisplayName: title}, &model.NamespaceSpec{}),
		simulated.Resource(model.Metadata{Name: "fleet", Namespace: Namespace}, &model.GroupSpec{Where: "true"}),
	}
	for _, c := range checks {
		resources = append(resources, simulated.Resource(model.Metadata{Name: c.name, Namespace: Namespace}, &model.CheckSpec{
			Targets: &model.Targets{Groups: []string{"fleet"}}, Command: &model.Command{Shell: c.command},
			Interval: model.Duration(interval), Alert: &model.Alert{FailAfter: 2},
		}))
	}
	if _, err := d.Service.Apply(ctx, by, resources, intent.ApplyOptions{Yes: true}); err != nil {
		return fmt.Errorf("make the checks of the simulated fleet: %w", err)
	}
	nodes := make([]intent.BulkNode, d.Nodes)
	for i := range nodes {
		role, site := roleOf(i)
		nodes[i] = intent.BulkNode{UID: uidOf(i), Name: nameOf(i), Labels: map[string]string{"role": role, "site": site}}
	}
	if err := d.Service.CreateNodes(ctx, by, Namespace, nodes); err != nil {
		return fmt.Errorf("make the nodes of the simulated fleet: %w", err)
	}
	return nil
}

// Forget deletes the simulated fleet with its namespace, if there is one.
func (d Fleet) Forget(ctx context.Context) error {
	namespace := intent.Key{Kind: "Namespace", Name: Namespace}
	r, err := d.Service.Get(ctx, namespace)
	if model.ClassOf(err) == model.NotFound {
		return nil
	}
	if err != nil {
		return fmt.Errorf("look for the simulated fleet: %w", err)
	}
	if r.Metadata.DisplayName != title {
		return model.Errorf(model.Conflict, "namespace %s is not that of the simulated fleet", Namespace).WithHint("start without --demo")
	}
	var keys []intent.Key
	for _, k := range kind.All().Kinds() {
		if !k.Namespaced {
			continue
		}
		list, err := d.Service.List(ctx, intent.ListQuery{Kind: k.Name, Namespace: Namespace}, nil)
		if err != nil {
			return fmt.Errorf("list the simulated fleet: %w", err)
		}
		for i := range list {
			keys = append(keys, intent.KeyOf(&list[i]))
		}
	}
	by := intent.Actor{User: "server", Address: "local", Message: "--demo 0: no simulated fleet"}
	for _, keys := range [][]intent.Key{keys, {namespace}} { // a namespace goes when it is empty
		if _, err := d.Service.Delete(ctx, by, keys, intent.ApplyOptions{Yes: true}); err != nil && ctx.Err() == nil {
			return fmt.Errorf("take the simulated fleet away: %w", err)
		}
	}
	return nil
}
