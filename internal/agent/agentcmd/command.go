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

// command is a subcommand of the program.
type command struct {
	name  string
	words int                 // largest number of arguments
	about string              // usage and description
	flags func(*flag.FlagSet) // adds its own flags
	run   func(ctx context.Context, args []string, env Env) error
}

func commands() []command {
	return []command{
		{name: joinName, words: 1, about: joinAbout, flags: func(s *flag.FlagSet) { (&joinFlags{}).add(s) }, run: runJoin},
		{name: resetName, about: resetAbout, flags: func(s *flag.FlagSet) { (&resetFlags{}).add(s) }, run: runReset},
	}
}

// Commands returns the subcommands: name → text of --help.
func Commands() map[string]string {
	out := map[string]string{}
	for _, c := range commands() {
		out[c.name] = c.help()
	}
	return out
}

// help returns the text of --help with the command's own flags; the agent's flags are not repeated.
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

// extraArgument returns the error of an argument too many.
func (c command) extraArgument(word string) error {
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
