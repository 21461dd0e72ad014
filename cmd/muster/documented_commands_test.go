//go:build linux && !noserver

package main

import (
	"bytes"
	"errors"
	"flag"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/muster-fleet/muster/internal/agent/agentcmd"
	"github.com/muster-fleet/muster/internal/cli"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/testenv"
)

// TestMentionedCommandsExist expects every muster command and flag in messages and documents to exist.
func TestMentionedCommandsExist(t *testing.T) {
	c := commandChecker{root: newCommandTree(), agent: agentFlags(t)}
	for _, name := range []string{"README.md", "CHANGELOG.md", "docs", "internal", "bench", "deploy"} {
		err := filepath.WalkDir(filepath.Join("../..", name), func(path string, d fs.DirEntry, err error) error {
			switch {
			case errors.Is(err, fs.ErrNotExist):
				return nil
			case err != nil || d.IsDir():
				return err
			case strings.HasSuffix(path, ".md"):
				text, err := os.ReadFile(path)
				for _, code := range codeInMarkdown(string(text)) {
					c.reportUnknownCommands(t, path, code)
				}
				return err
			case strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "_test.go"):
				f, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
				if err != nil {
					return err
				}
				ast.Inspect(f, func(n ast.Node) bool {
					if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
						if text, err := strconv.Unquote(lit.Value); err == nil {
							c.reportUnknownCommands(t, path, text)
						}
					}
					return true
				})
			}
			return nil
		})
		testenv.NoError(t, err)
	}
	if c.count < 100 {
		t.Errorf("only %d commands found", c.count)
	}
}

// notCommands matches text that only begins like a command.
var notCommands = regexp.MustCompile(`^(muster journal|muster join token|muster test|muster load %d|muster trust|muster-agent for root)`)

// commandLine matches a command line up to the prose behind it.
var commandLine = regexp.MustCompile(`\bmuster(-agent)?((?: [^\s;|)` + "`" + `]+)+)`)

// quoted matches a quoted word.
var quoted = regexp.MustCompile(`'[^']*'|"[^"]*"`)

// commandChecker finds muster commands and flags in documents and messages, and reports the unknown commands and
// flags.
type commandChecker struct {
	root  *cobra.Command
	agent map[string]bool
	count int // commands that were checked
}

// reportUnknownCommands reports each command or flag of a text that does not exist.
func (c *commandChecker) reportUnknownCommands(t *testing.T, path, text string) {
	for _, m := range commandLine.FindAllStringSubmatch(text, -1) {
		words := strings.Fields(quoted.ReplaceAllString(m[2], "QUOTED"))
		if notCommands.MatchString(m[0]) || !regexp.MustCompile(`^[a-z][a-z-]+$|^--?[a-z]`).MatchString(strings.TrimRight(words[0], ",:.")) {
			continue
		}
		c.count++
		agent, command := m[1] != "", c.root
		if !agent && words[0] == "agent" {
			agent, words = true, words[1:]
		}
		for i, word := range words {
			ended := strings.HasSuffix(word, ",") || strings.HasSuffix(word, ":") || strings.HasSuffix(word, ".")
			word = strings.TrimRight(word, ",:.")
			if name, _, isFlag := strings.Cut(word, "="); isFlag || strings.HasPrefix(word, "-") {
				if agent && strings.HasPrefix(name, "-") && !c.agent[strings.TrimLeft(name, "-")] {
					t.Errorf("%s: %q: muster-agent has no flag %s", path, m[0], name)
				} else if !agent && !hasFlag(command, name) {
					t.Errorf("%s: %q: %s has no flag %s", path, m[0], command.CommandPath(), name)
				}
			} else if _, there := agentcmd.SubcommandHelp()[word]; agent && i == 0 && !there {
				t.Errorf("%s: %q: muster-agent has no command %q", path, m[0], word)
			} else if agent {
				continue
			} else if sub := subcommand(command, word); sub != nil {
				command = sub
			} else if i == 0 || i == 1 && commandGroups[command.Name()] {
				t.Errorf("%s: %q: %s has no command %q", path, m[0], command.CommandPath(), word)
			}
			if ended {
				break
			}
		}
	}
}

// commandGroups are the commands that only contain others.
var commandGroups = map[string]bool{"auth": true, "completion": true, "debug": true, "event": true, "load": true, "node": true}

// subcommand returns the direct subcommand of a command by name or alias. Without such a subcommand it returns nil.
func subcommand(c *cobra.Command, word string) *cobra.Command {
	for _, sub := range c.Commands() {
		if sub.Name() == word || sub.HasAlias(word) {
			return sub
		}
	}
	return nil
}

// hasFlag reports whether a command has the flag in a command-line word, such as --server.
func hasFlag(c *cobra.Command, word string) bool {
	if strings.Contains(word, "%") {
		return true // a format, filled in at run time
	}
	c.InitDefaultHelpFlag()
	if name, long := strings.CutPrefix(word, "--"); long {
		return name == "" || c.Flags().Lookup(name) != nil || c.InheritedFlags().Lookup(name) != nil
	}
	name := strings.TrimPrefix(word, "-")
	if len(name) != 1 {
		return name == "" || !strings.HasPrefix(word, "-") // standard input; an argument like warn=10
	}
	return c.Flags().ShorthandLookup(name) != nil || c.InheritedFlags().ShorthandLookup(name) != nil
}

// agentFlags collects the names of all flags of muster-agent from its --help texts.
func agentFlags(t *testing.T) map[string]bool {
	var help bytes.Buffer
	if _, err := agentcmd.Parse([]string{"--help"}, func(string) string { return "" }, &help); !errors.Is(err, flag.ErrHelp) {
		t.Fatal(err)
	}
	for _, text := range agentcmd.SubcommandHelp() {
		help.WriteString(text)
	}
	flags := map[string]bool{"help": true}
	for _, m := range regexp.MustCompile(`(?m)^  -([a-z-]+)`).FindAllStringSubmatch(help.String(), -1) {
		flags[m[1]] = true
	}
	return flags
}

// codeInMarkdown returns the inline code and code blocks of a Markdown page. Code is in code spans, indented lines and
// fenced blocks.
func codeInMarkdown(text string) (code []string) {
	fenced := false
	for text := range strings.Lines(text) {
		switch {
		case strings.HasPrefix(strings.TrimSpace(text), "```"):
			fenced = !fenced
		case fenced, strings.HasPrefix(text, "    "):
			command, _, _ := strings.Cut(text, "  #")
			code = append(code, strings.TrimSpace(command))
		default:
			for _, m := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(text, -1) {
				code = append(code, m[1])
			}
		}
	}
	return code
}

// TestFlagErrors passes wrong flags or arguments to commands, and expects errors that show an example command. An
// error also lists the accepted values.
func TestFlagErrors(t *testing.T) {
	for line, want := range map[string]string{
		"load size muster-sizing --factors a,b": `--factors: "a,b": expected a list of numbers, comma-separated, such as 1,2,4`,
		"load size muster-sizing --seconds 1h":  `--seconds: "1h": expected a whole number, such as 30`,
		"load size muster-sizing --factors":     "--factors needs a value, such as 1,2,4",
		"load run muster-sizing --max-lag 5":    `--max-lag: "5": expected a time with its unit, such as 30s`,
		"load run muster-sizing --scale x":      `--scale: "x": expected a number, such as 0.5`,
		"load run muster-sizing --seed -1":      `--seed: "-1": expected a whole number, 0 or more, such as 1`,
		"load run muster-sizing --quick=maybe":  `--quick: "maybe": expected true or false`,
		"load run muster-sizing --out":          "--out needs a value: the folder of the report; ",
		"load run muster-sizing --goal p98=1ms": "--goal \"p98=1ms\": there is no figure \"p98\"\n  did you mean p99? want NAME=LIMIT, such as --goal p99=800ms",
		"load new --interval 5":                 `--interval: "5": expected a time with its unit, such as 5s`,
		"load compare old/run.json":             "a comparison needs two runs or more, the base first, and has 1\n  such as muster load compare old/ new/",
		"load compare --interleave":             "--interleave plays one scenario, and has 0\n  muster load compare --interleave muster-mixed",
		"load compare old/ new/ -o text":        `--output: "text" is none of table, json, yaml`,
		"load from-fleet --classes few":         `--classes: "few": expected a whole number, such as 8`,
		"load report":                           "the argument RUN.json|FOLDER is missing\n",
		"get events --limit many":               `--limit: "many": expected a whole number, such as 50`,
	} {
		var out, errs bytes.Buffer
		env := &cli.Env{Args: strings.Fields(line), Stdin: strings.NewReader(""), Stdout: &out, Stderr: &errs, Getenv: func(string) string { return "" }, Now: time.Now, Zone: time.UTC}
		if code := cli.Main(t.Context(), env, platformCommands()...); code != model.Invalid.Exit() || !strings.HasPrefix(errs.String(), "muster: "+want) {
			t.Errorf("%s: code %d, want %q in\n%s%s", line, code, want, out.String(), errs.String())
		}
	}
}

// newCommandTree makes the tree of all commands of muster, with all flags at their defaults.
func newCommandTree() *cobra.Command {
	c := cli.NewCommandTree(cli.NewProcessEnv(), platformCommands()...)
	c.InitDefaultHelpCmd()
	c.InitDefaultCompletionCmd()
	return c
}

// TestEveryCommandHasHelp expects a short description and an example for every command.
func TestEveryCommandHasHelp(t *testing.T) {
	var walk func(*cobra.Command)
	walk = func(c *cobra.Command) {
		for _, sub := range c.Commands() {
			walk(sub)
		}
		if c.Name() == "help" || c.Parent() != nil && c.Parent().Name() == "completion" || c.IsAdditionalHelpTopicCommand() {
			return
		}
		if c.Short == "" || c.Name() != "completion" && c.Example == "" {
			t.Errorf("%s: short %q, example %q", c.CommandPath(), c.Short, c.Example)
		}
		for line := range strings.Lines(c.Long) {
			if len([]rune(strings.TrimRight(line, "\n"))) > 110 && c.Name() != "agent" {
				t.Errorf("%s: a long line: %s", c.CommandPath(), line)
			}
		}
	}
	walk(newCommandTree())
}
