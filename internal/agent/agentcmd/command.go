package agentcmd

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"strings"

	"github.com/muster-fleet/muster/internal/model"
)

// command is what the program does beside being an agent.
type command struct {
	name  string
	words int                 // that may follow
	about string              // usage, without the program's name, and what it does
	flags func(*flag.FlagSet) // beside those of the agent
	run   func(ctx context.Context, args []string, env Env) error
}

func commands() []command {
	return []command{
		{name: joinName, words: 1, about: joinAbout, flags: func(s *flag.FlagSet) { (&joinFlags{}).add(s) }, run: runJoin},
		{name: resetName, about: resetAbout, flags: func(s *flag.FlagSet) { (&resetFlags{}).add(s) }, run: runReset},
	}
}

// Commands are what the program does beside being an agent: name → what --help says.
func Commands() map[string]string {
	out := map[string]string{}
	for _, c := range commands() {
		out[c.name] = c.help()
	}
	return out
}

// help is what --help says: the command's own flags. Those of the agent are too many to
// say again.
func (c command) help() string {
	set := flag.NewFlagSet("", flag.ContinueOnError)
	c.flags(set)
	var b strings.Builder
	b.WriteString(c.about)
	set.SetOutput(&b)
	set.PrintDefaults()
	return b.String()
}

func (c command) usage(set *flag.FlagSet, w io.Writer) {
	if c.name == "" {
		usage(set, w)
		return
	}
	fmt.Fprint(w, c.help())
}

func (c command) tooMuch(word string) error {
	if c.name != "" {
		return fmt.Errorf("%q is too much for %s", word, c.name)
	}
	var names []string
	for _, c := range commands() {
		names = append(names, c.name)
	}
	err := model.Errorf(model.Invalid, "%q is too much: the agent takes flags only", word)
	if strings.HasPrefix(word, "mj1.") {
		return err.WithHint("to join with this token: muster-agent join TOKEN")
	}
	for _, name := range names {
		if word == name {
			return err.WithHint("the command comes first: muster-agent %s", name)
		}
	}
	if near := model.Nearest(word, names); near != "" {
		return err.WithHint("did you mean muster-agent %s? all settings: muster-agent --help", near)
	}
	return errors.New(err.Message)
}
