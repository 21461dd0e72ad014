package agentcmd

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"strings"

	"github.com/muster-fleet/muster/internal/agent"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pki"
)

const (
	resetName  = "reset-identity"
	resetAbout = `usage: muster-agent reset-identity [flags]

Takes away who this machine is: the identity, and with it the results that still wait and the assignment,
which belong to that node. For a machine that was cloned, or shall join another server. The agent must not
run; settings stay. Takes --state-dir and --config as the agent does, and:
`
)

type resetFlags struct{ yes bool }

func (f *resetFlags) add(set *flag.FlagSet) {
	set.BoolVar(&f.yes, "yes", false, "do it without asking")
}

func runReset(_ context.Context, args []string, env Env) error {
	var f resetFlags
	o, err := parse(args, env.Getenv, env.Out, command{name: resetName, about: resetAbout, flags: f.add})
	if err != nil {
		return err
	}
	removed := false
	err = agent.Reset(o.Agent.StateDir, func(id *pki.Identity, names []string) error {
		if len(names) == 0 {
			return nil
		}
		who := "This machine has asked to join and is no node yet."
		if id != nil {
			who = fmt.Sprintf("This machine is node %s (namespace %s, id %s).", id.Name, id.Namespace, id.Node)
		}
		fmt.Fprintf(env.Out, "%s\nRemoved from %s: %s\n", who, o.Agent.StateDir, strings.Join(names, ", "))
		removed = true
		return confirm(env, f.yes)
	})
	if err != nil {
		return err
	}
	if removed {
		fmt.Fprintln(env.Out, "The identity is removed.")
	} else {
		fmt.Fprintf(env.Out, "Nothing to remove: %s holds no identity.\n", o.Agent.StateDir)
	}
	fmt.Fprintf(env.Out, "To join again, on the server: muster node token; here, what that prints: %s join TOKEN\n", env.Program)
	return nil
}

// confirm asks a yes-or-no question; without an answer the answer is no.
func confirm(env Env, yes bool) error {
	if yes {
		return nil
	}
	fmt.Fprint(env.Out, "Results that the server does not have yet are lost. Go on? [y/N] ")
	answer, _ := bufio.NewReader(env.In).ReadString('\n')
	if a := strings.ToLower(strings.TrimSpace(answer)); a == "y" || a == "yes" {
		return nil
	}
	return model.Errorf(model.Guarded, "nothing was removed").WithHint("without a question: muster-agent reset-identity --yes")
}
