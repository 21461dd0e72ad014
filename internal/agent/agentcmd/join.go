package agentcmd

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/muster-fleet/muster/internal/agent"
	"github.com/muster-fleet/muster/internal/agent/link"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pause"
	"github.com/muster-fleet/muster/internal/pki"
)

const joinUsage = `usage: muster-agent join [TOKEN|@FILE] [flags]

Makes this machine a node of a server, and writes the given flags into the settings file, so that
the agent needs no flags afterwards. TOKEN is what muster node token prints on the server; before
the agent sends anything, the server must present the CA that the token names. The token is not stored.

Without a token the machine asks the server of --server for permission, and waits until an operator
types muster node accept. Name the CA with --ca-hash or --ca-file, or compare the printed CA hash.

Takes the settings of the agent, too (muster-agent --help), and:
`

// joiner holds the flags and settings of one call of muster-agent join
type joiner struct {
	service, printUnit, keepToken bool // flags

	o   *Options
	env Env
}

// declareFlags declares the flags of the subcommand join.
func (j *joiner) declareFlags(set *flag.FlagSet) {
	set.BoolVar(&j.service, "service", false, "install the program and a systemd unit, start it, and wait until it is connected")
	set.BoolVar(&j.printUnit, "print-unit", false, "print the unit that --service would write, and do nothing")
	set.BoolVar(&j.keepToken, "keep-token", false, "store the token in the settings file, for machines that lose their disk and join at each start")
}

// runJoin runs the subcommand join. It enrols the machine, writes the settings and, with --service, starts the systemd
// service.
func (j *joiner) runJoin(ctx context.Context, o *Options, env Env) (err error) {
	j.o, j.env = o, env
	if len(o.Rest) > 0 {
		if o.Agent.Token, err = readToken(o.Rest[0]); err != nil {
			return err
		}
	}
	s := newSystemdService(env, o)
	if j.printUnit {
		_, err := fmt.Fprint(env.Out, s.unitContent())
		return err
	}
	if j.keepToken && o.Agent.Token == "" {
		return model.Errorf(model.Invalid, "--keep-token needs a join token: muster-agent join TOKEN --keep-token").WithHint("muster-agent join TOKEN --keep-token")
	}
	if j.service {
		if err := s.checkSystemd(ctx); err != nil {
			return err
		}
	}
	id, err := j.join(ctx)
	var pending *pki.PendingError
	if err != nil && !(j.service && errors.As(err, &pending)) {
		return err
	}
	if err := writeSettings(o.Config, j.settingChanges()); err != nil {
		return err
	}
	if id != nil {
		j.printNode(id)
	}
	if j.service {
		return s.install(ctx, id != nil)
	}
	fmt.Fprint(env.Out, s.startHint())
	return nil
}

// readToken returns the join token that an argument contains, directly or as @ and a file name. The argument is
// the token itself, or @ and the name of its file.
func readToken(word string) (string, error) {
	file, ok := strings.CutPrefix(word, "@")
	if !ok {
		return word, nil
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return "", model.Errorf(model.Invalid, "read the join token: %w", err)
	}
	return strings.TrimSpace(string(data)), nil
}

// join asks the server to accept the machine, and repeats the request until a person has decided. With
// --service it asks once, and the service continues.
func (j *joiner) join(ctx context.Context) (*pki.Identity, error) {
	announced := false
	for wait := time.Second; ; wait = min(2*wait, time.Minute) {
		id, already, err := agent.Join(ctx, j.o.Agent, j.printTrustedCA)
		if already && err == nil {
			fmt.Fprintf(j.env.Out, "This machine is already node %s (namespace %s, id %s). If the server has deleted that node, or to join as another node:\n  systemctl stop muster-agent; %s reset-identity; then run the same join again\n", id.Name, id.Namespace, id.Node, j.env.Program)
			return id, nil
		}
		var pending *pki.PendingError
		if errors.As(err, &pending) && !announced {
			j.printPending(pending)
			announced = true
		}
		rest, again := agent.RetryJoin(err, wait)
		if err == nil || !announced || !again || j.service {
			return id, err
		}
		if pause.For(ctx, rest) != nil {
			return nil, model.Errorf(model.Unavailable, "no operator has accepted this machine yet").WithHint("the machine keeps its key; run the same command to continue")
		}
	}
}

// printTrustedCA prints the hash of the server's CA, if the settings name no CA. A person then compares it with the
// hash on the server.
func (j *joiner) printTrustedCA(ca [32]byte) {
	fmt.Fprintf(j.env.Out, "No token and no --ca-hash: the agent trusts the CA that the server sent. Compare it on the server with muster node ca:\n\n  %s\n\n", pki.FormatSum(ca))
}

// printPending prints the machine's key, and the server commands that accept the machine.
func (j *joiner) printPending(p *pki.PendingError) {
	fmt.Fprintf(j.env.Out, "Asked %s to accept this machine. Compare its key:\n\n  %s\n\nOn the server: muster node list --pending, then: muster node accept %s\n", p.Server, p.Key, p.Key[:16])
	if !j.service {
		fmt.Fprintf(j.env.Out, "Waiting. Ctrl-C stops waiting; the same command continues later.\n")
	}
}

// settingChanges returns the settings that join writes to the settings file. An empty value removes a line.
func (j *joiner) settingChanges() map[string]string {
	keep := map[string]string{}
	for name, value := range j.o.FlagValues {
		if env := variableOfFlag(&flag.Flag{Name: name}); env != "" {
			keep[env] = value
		}
	}
	delete(keep, "MUSTER_CONFIG")
	if _, named := keep["MUSTER_CA_FILE"]; named {
		keep["MUSTER_CA_FILE"], keep["MUSTER_CA_HASH"] = "", pki.FormatSum(j.o.Agent.CA)
	}
	if keep["MUSTER_TOKEN"] = ""; j.keepToken {
		keep["MUSTER_TOKEN"] = j.o.Agent.Token
	}
	return keep
}

// printNode prints the name, id, servers and folders of the joined node.
func (j *joiner) printNode(id *pki.Identity) {
	fmt.Fprintf(j.env.Out, "Node %s in namespace %s\n", id.Name, id.Namespace)
	for _, line := range [][2]string{{"id", id.Node.String()}, {"servers", strings.Join(id.Servers, ", ")}, {"state", j.o.Agent.StateDir}, {"settings", j.o.Config}} {
		fmt.Fprintf(j.env.Out, "  %-9s %s\n", line[0], line[1])
	}
	if j.keepToken {
		fmt.Fprintf(j.env.Out, "  %-9s stored in %s: everybody who can read that file can join a machine with the token\n", "token", j.o.Config)
	}
}

const resetUsage = `usage: muster-agent reset-identity [flags]

Removes the identity of this machine, its unsent results and its assignment,
which belong to that node. For a machine that was cloned, or shall join another server. The agent must not
run; settings stay. Takes --state-dir and --config as the agent does, and:
`

// identityReset holds the flags of one call of the subcommand reset-identity. The subcommand deletes the node's key
// and data from the machine.
type identityReset struct{ yes bool }

// declareFlags declares the flags of the subcommand reset-identity.
func (r *identityReset) declareFlags(set *flag.FlagSet) {
	set.BoolVar(&r.yes, "yes", false, "do not ask for confirmation")
}

// runReset runs the subcommand reset-identity. It asks for confirmation and removes the data of the node.
func (r *identityReset) runReset(_ context.Context, o *Options, env Env) error {
	removed := false
	err := agent.Reset(o.Agent.StateDir, func(id *pki.Identity, names []string) error {
		if len(names) == 0 {
			return nil
		}
		who := "This machine has asked to join; no operator has accepted it yet."
		if id != nil {
			who = fmt.Sprintf("This machine is node %s (namespace %s, id %s).", id.Name, id.Namespace, id.Node)
		}
		fmt.Fprintf(env.Out, "%s\nRemoved from %s: %s\n", who, o.Agent.StateDir, strings.Join(names, ", "))
		removed = true
		return confirmReset(env, r.yes)
	})
	if err != nil {
		return err
	}
	if removed {
		fmt.Fprintln(env.Out, "The identity is removed.")
	} else {
		fmt.Fprintf(env.Out, "Nothing to remove: %s has no identity.\n", o.Agent.StateDir)
	}
	fmt.Fprintf(env.Out, "To join again: on the server: muster node token; here: %s join TOKEN\n", env.Program)
	return nil
}

// confirmReset asks the person at the terminal to confirm a reset. No answer means no.
func confirmReset(env Env, yes bool) error {
	if yes {
		return nil
	}
	fmt.Fprint(env.Out, "Results that are not on the server yet are lost. Continue? [y/N] ")
	answer, _ := bufio.NewReader(env.In).ReadString('\n')
	if a := strings.ToLower(strings.TrimSpace(answer)); a == "y" || a == "yes" {
		return nil
	}
	return model.Errorf(model.Guarded, "reset not confirmed: nothing was removed").WithHint("without confirmation: muster-agent reset-identity --yes")
}

// proxyDialer returns a dialer through the proxy in the settings, or in the variables https_proxy and no_proxy.
func (w *rawValues) proxyDialer(getenv func(string) string) (pki.Dial, error) {
	proxy, except := cmp.Or(w.proxy, getenv("https_proxy")), cmp.Or(w.noProxy, getenv("no_proxy"))
	if err := link.CheckProxy(proxy); err != nil {
		return nil, err
	}
	return link.NewDialer(func(name string) string {
		return map[string]string{"HTTPS_PROXY": proxy, "NO_PROXY": except}[name]
	}), nil
}

// proxyPage is the part of docs/reference/agent.md about forward proxies.
const proxyPage = `
## Through a forward proxy

Joining, renewals and sessions go through the proxy that ` + "`HTTPS_PROXY`" + ` names, by CONNECT, unless ` + "`NO_PROXY`" + ` has
the server's host; loopback addresses never do. In a password write ` + "`@`, `:` and `/` as `%40`, `%3A` and `%2F`" + `. When
joining, the settings are kept in the file, where only root reads them:

    muster-agent join mj1.… --https-proxy http://agent:secret@proxy.example.org:3128 --service

Later: change ` + "`HTTPS_PROXY=`" + ` in the file of settings and restart the agent. Commands that it runs do not see what
stands in the file, only what is in the agent's own environment.

The proxy must allow CONNECT to the server's port (squid: ` + "`acl SSL_ports port 8443`" + `) and must not open TLS: the agent
trusts its server's CA alone. When it does not let the agent through, the agent's log names the proxy, its answer
and what to set. A proxy that restarts ends the session; the agent returns by itself.
`
