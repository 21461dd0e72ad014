//go:build linux

package test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/testenv"
	"github.com/muster-fleet/muster/test/harness"
)

// lanMachine is a machine in a simulated network, with the folders of its agent.
type lanMachine struct {
	*harness.Machine
	t       *testing.T
	state   string
	config  string
	process *harness.Process
}

// env returns the environment variables for the folders of the simulated machine.
func (b *lanMachine) env() []string {
	return []string{"MUSTER_CONFIG=" + b.config, "MUSTER_STATE_DIR=" + b.state}
}

// runCommand runs `muster agent` on the machine, with the given arguments.
func (b *lanMachine) runCommand(words ...string) string {
	b.t.Helper()
	r := b.Run(b.env(), append([]string{"agent"}, words...)...)
	r.Expect(0)
	return r.Out
}

// startAgent starts the agent on the machine.
func (b *lanMachine) startAgent() { b.t.Helper(); b.process = b.Launch(b.env(), "agent") }

// awaitLog waits until the agent's log has all given words.
func (b *lanMachine) awaitLog(within time.Duration, words ...string) {
	b.t.Helper()
	harness.Until(b.t, within, fmt.Sprintf("the agent on %s says %q", b.Name, words), func() (string, bool) {
		log := b.process.Log()
		for _, w := range words {
			if !strings.Contains(log, w) {
				return log, false
			}
		}
		return log, true
	})
}

// lan is a simulated local network with a server and machines. Each is in a network namespace.
type lan struct {
	t      *testing.T
	net    *harness.Network
	server *harness.Server
}

// newLAN starts a server in a simulated network of machines.
func newLAN(t *testing.T, args ...string) *lan {
	l := &lan{t: t, net: harness.NewNetwork(t)}
	l.server = harness.NewServer(t, args...)
	l.server.On = l.net.Machine("server")
	l.server.Listen, l.server.Plain, l.server.Admin = l.server.On.Address+":8443", "", "127.0.0.1:9090"
	l.server.Start()
	l.server.Login()
	return l
}

// addMachine adds a machine with its own folders to the network.
func (l *lan) addMachine(name string) *lanMachine {
	l.t.Helper()
	dir := l.t.TempDir()
	return &lanMachine{Machine: l.net.Machine(name), t: l.t, state: filepath.Join(dir, "state"), config: filepath.Join(dir, "agent.env")}
}

// joinMachine joins a machine with the server's printed command, and starts the machine's agent.
func (l *lan) joinMachine(b *lanMachine, flags ...string) {
	l.t.Helper()
	b.runCommand(newJoinArguments(l.t, l.server, append([]string{"--uses", "1"}, flags...)...)...)
	b.startAgent()
	b.awaitLog(30*time.Second, "msg=connected")
}

// event returns the event of a check on a node, or an empty event. While the event does not exist, it returns an empty
// event.
func (l *lan) event(node, check string) v1.Event {
	l.t.Helper()
	r := l.server.Try("get", "events", "--node", node, "--check", check, "-o", "json")
	if r.Code == model.NotFound.Exit() {
		return v1.Event{}
	}
	text := r.Out
	var list struct{ Items []v1.Event }
	decodeJSON(l.t, text, &list)
	if len(list.Items) == 0 {
		return v1.Event{}
	}
	return list.Items[0]
}

// awaitResults waits until n more results of a node arrive.
func (l *lan) awaitResults(node, check string, more uint64) {
	l.t.Helper()
	want := l.event(node, check).Results + more
	l.awaitEvent(node, check, fmt.Sprintf("%d results", want), func(e v1.Event) bool { return e.Results >= want })
}

// awaitEvent waits until a check's event fulfils a condition, and returns the event.
func (l *lan) awaitEvent(node, check, what string, ok func(v1.Event) bool) v1.Event {
	l.t.Helper()
	var e v1.Event
	harness.Until(l.t, 60*time.Second, node+"/"+check+": "+what, func() (string, bool) {
		e = l.event(node, check)
		return fmt.Sprintf("%+v", e), ok(e)
	})
	return e
}

// TestMachinesSurviveNetworkFaults expects simulated machines to survive lost cables, crashes, renaming,
// cloning and reinstallation.
func TestMachinesSurviveNetworkFaults(t *testing.T) {
	skipIfShort(t, "cables are out for a while")
	t.Parallel()
	l := newLAN(t, "--keepalive-interval", "1s", "--keepalive-timeout", "5s")
	alpha, beta := l.addMachine("alpha"), l.addMachine("beta")
	l.joinMachine(alpha)
	l.joinMachine(beta)
	identity := model.BuiltinCheckName(model.IdentityCheck)
	for _, b := range []*lanMachine{alpha, beta} { // nodes are named after the host
		l.server.Apply(fmt.Sprintf("apiVersion: muster/v1\nkind: Check\nmetadata: {name: where-%s}\nspec:\n  targets: {nodes: [%[1]s]}\n  interval: 1s\n"+
			"  command: cat /etc/machine-id; hostname; grep -q %s /etc/machine-id || exit 2\n", b.Name, b.MachineID()))
		e := l.awaitEvent(b.Name, "where-"+b.Name, "runs", func(e v1.Event) bool { return e.Results > 0 })
		assert(t, e.Status == model.OK && strings.Contains(e.Output, b.MachineID()) && strings.Contains(e.Output, b.Name),
			"%s ran elsewhere: %+v", b.Name, e)
	}

	l.pullCable(beta)
	l.crashMachine(beta, identity)

	l.server.CLI("node", "rename", "alpha", "shop01", "-m", "moved")
	l.awaitResults("shop01", "where-alpha", 2)
	expectEqual(t, "the renamed machine was refused", strings.Count(alpha.process.Log(), "(unknown)"), 0)

	l.cloneMachine(alpha, "shop01", "where-alpha", identity)
	l.replaceMachine(beta, "beta", "where-beta")
	l.retireNode(beta, "beta")
	for _, check := range []string{"where-alpha", "where-beta"} {
		l.server.Try("get", "problems").Expect(harness.AnyCode).ExpectNot(check)
	}
}

// pullCable unplugs a machine's cable until its keepalive is overdue, then plugs the cable in again. With the
// cable back, its results of the meantime are applied.
func (l *lan) pullCable(b *lanMachine) {
	l.t.Helper()
	before := l.event(b.Name, "where-"+b.Name)
	b.UnplugCable()
	l.awaitEvent(b.Name, model.KeepaliveCheckName, "its keepalive is missed", func(e v1.Event) bool { return e.Status == model.Critical })
	b.PlugCable()
	l.awaitEvent(b.Name, model.KeepaliveCheckName, "keepalives arrive again", func(e v1.Event) bool { return e.Status == model.OK })
	l.awaitEvent(b.Name, "where-"+b.Name, "what it ran without a cable is applied", func(e v1.Event) bool { return e.Results >= before.Results+5 && e.Lost == 0 })
}

// crashMachine crashes a machine without any packet to the server. The machine leaves its old connection open on the
// server. It boots with another boot id and is accepted within seconds, not taken for a clone.
func (l *lan) crashMachine(b *lanMachine, identity string) {
	l.t.Helper()
	b.Crash(b.process)
	began := time.Now()
	b.startAgent()
	b.awaitLog(30*time.Second, "msg=connected")
	l.t.Logf("a machine that crashed was in again after %s", time.Since(began).Round(time.Millisecond))
	l.awaitResults(b.Name, "where-"+b.Name, 2)
	e := l.event(b.Name, identity)
	assert(l.t, e.Results == 0, "a machine that crashed is called a clone: %+v", e)
}

// cloneMachine copies an agent to a second machine, and expects the server to refuse the second machine. After
// reset-identity the machine is accepted.
func (l *lan) cloneMachine(of *lanMachine, node, check, identity string) {
	l.t.Helper()
	of.process.Stop()
	gamma := l.addMachine("gamma")
	for from, to := range map[string]string{of.state: gamma.state, of.config: gamma.config} {
		harness.CopyFolder(l.t, from, to)
	}
	of.startAgent()
	of.awaitLog(30*time.Second, "msg=connected")
	gamma.startAgent()
	gamma.awaitLog(30*time.Second, "(clone)", of.Address, gamma.Address, "muster-agent reset-identity")
	e := l.awaitEvent(node, identity, "tells", func(e v1.Event) bool { return e.Status == model.Critical })
	expectTexts(l.t, e.Output, of.Address+" (machine "+of.MachineID()[:8], gamma.Address+" (machine "+gamma.MachineID()[:8], "since 20", "muster-agent reset-identity")
	l.awaitResults(node, check, 3)
	if e := l.event(node, check); e.Status != model.OK || !strings.Contains(e.Output, of.MachineID()) {
		l.t.Errorf("the clone's word counts: %+v", e)
	}
	expectNoTexts(l.t, of.process.Log(), "(duplicate)")

	gamma.process.Stop()
	gamma.runCommand("reset-identity", "--yes")
	left, _ := filepath.Glob(filepath.Join(gamma.state, "identity*"))
	assert(l.t, len(left) == 0, "events that are left: %v", left)
	l.joinMachine(gamma)
	l.awaitEvent("gamma", model.KeepaliveCheckName, "is a node of its own", func(e v1.Event) bool { return e.Status == model.OK && e.Node == "gamma" })
	e = l.event("gamma", identity)
	assert(l.t, e.Results == 0, "the identity event still reports a clone: %+v", e)
}

// replaceMachine reinstalls a machine, and expects the printed join command to reuse its node. The printed
// command does so, and the former machine is refused.
func (l *lan) replaceMachine(b *lanMachine, node, check string) {
	l.t.Helper()
	before := l.event(node, check)
	b.process.Stop()
	testenv.NoError(l.t, os.Rename(b.state, b.state+"-before"))
	b.runCommand(parseJoinArguments(l.t, l.server.CLI("node", "replace", node, "-m", "installed anew"))...)
	b.startAgent()
	b.awaitLog(30*time.Second, "msg=connected")
	l.awaitResults(node, check, 2)
	if e := l.event(node, check); e.Results <= before.Results || e.NodeID != before.NodeID || e.Status != model.OK {
		l.t.Errorf("before %+v, after %+v", before, e)
	}

	old := b.Launch([]string{"MUSTER_CONFIG=" + b.config, "MUSTER_STATE_DIR=" + b.state + "-before"}, "agent")
	old.AwaitLog("replaced", "muster node")
	old.Kill()
	l.awaitResults(node, check, 1)
}

// retireNode retires a node, and expects its events to be removed. The node's machine gets the reason.
func (l *lan) retireNode(b *lanMachine, node string) {
	l.t.Helper()
	l.server.CLI("node", "retire", node, "-m", "sold", "--yes")
	b.awaitLog(30*time.Second, "retired", "sold", "muster node token")
	e := l.event(node, model.KeepaliveCheckName)
	assert(l.t, e.Results == 0, "a retired node has events: %+v", e)
	b.process.Kill()
	b.startAgent() // also after its next start
	b.awaitLog(30*time.Second, "retired", "sold")
}
