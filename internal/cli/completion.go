package cli

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/client"
	"github.com/muster-fleet/muster/internal/kind"
	"github.com/muster-fleet/muster/internal/model"
)

// completionTimeout limits the wait of a shell for names; after it there are none, and no error.
const completionTimeout = 2 * time.Second

// completion returns the words that may stand next on a command line.
type completion = func(c *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective)

const noFiles = cobra.ShellCompDirectiveNoFileComp

// completeKinds offers the kinds of resources as the only argument.
func (s *session) completeKinds(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, noFiles
	}
	return s.kindWords(), noFiles
}

// completeObjects offers a kind, then at most so many names of that kind.
func (s *session) completeObjects(most int) completion {
	return func(c *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
		if len(args) == 0 {
			return s.listWords(), noFiles
		}
		if len(args) > most {
			return nil, noFiles
		}
		word := args[0]
		switch list, _ := stateOf(word); list {
		case events, history:
			return s.completeEvents(c, args[1:], typed)
		case problems:
			return s.completeFrom(c, typed, func(ctx context.Context, api *client.Client) (ids []string, err error) {
				list, err := api.Problems.List(ctx, s.ns(), "", "", true, 100, "")
				for _, p := range list.Items {
					ids = append(ids, p.ID+"\t"+p.Node+"/"+p.Source.String())
				}
				return ids, err
			})
		case agents:
			word = "Node"
		}
		k, ok := s.Kinds.Of(word)
		if !ok {
			return nil, noFiles
		}
		return s.completeNames(k.KindInfo)(c, args, typed)
	}
}

// completeNames offers the names of a kind.
func (s *session) completeNames(k model.KindInfo) completion {
	return func(c *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
		return s.completeFrom(c, typed, func(ctx context.Context, api *client.Client) (names []string, err error) {
			refs, err := resourceRefs(ctx, api, k, s.nsUnless(!k.Namespaced), "")
			for _, ref := range refs {
				names = append(names, ref.Name)
			}
			return names, err
		})
	}
}

// completeCheck offers a check as the only argument.
func (s *session) completeCheck(c *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, noFiles
	}
	return s.completeNames(kind.Check().KindInfo)(c, args, typed)
}

// completeEvents offers nodes, then NODE/CHECK.
func (s *session) completeEvents(c *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
	node, _, named := strings.Cut(typed, "/")
	if !named {
		names, _ := s.completeNames(kind.Node().KindInfo)(c, nil, typed)
		for i := range names {
			names[i] += "/"
		}
		return names, noFiles | cobra.ShellCompDirectiveNoSpace
	}
	return s.completeFrom(c, typed, func(ctx context.Context, api *client.Client) (names []string, err error) {
		list, err := api.Events.List(ctx, v1.EventFilter{Namespace: s.ns(), Node: node, Limit: 1000})
		for _, e := range list.Items {
			names = append(names, e.Node+"/"+e.Check)
		}
		return names, err
	})
}

// completeFrom offers the words of a list of the server that begin as typed. Words that came before
// the time-out are better than none.
func (s *session) completeFrom(c *cobra.Command, typed string, list func(context.Context, *client.Client) ([]string, error)) ([]string, cobra.ShellCompDirective) {
	api, err := s.connect()
	if err != nil {
		return nil, noFiles
	}
	ctx := c.Context()
	if ctx == nil {
		ctx = context.Background()
	}
	ctx, cancel := context.WithTimeout(ctx, completionTimeout)
	defer cancel()
	words, _ := list(ctx, api)
	words = slices.DeleteFunc(words, func(word string) bool { return !strings.HasPrefix(word, typed) })
	slices.Sort(words)
	return slices.Compact(words), noFiles
}

// completeFlags offers names for --namespace, --node, --check and --group of all commands.
func (s *session) completeFlags(c *cobra.Command) {
	for flag, word := range map[string]string{"namespace": "Namespace", "node": "Node", "check": "Check", "group": "Group"} {
		if c.Flags().Lookup(flag) == nil && c.PersistentFlags().Lookup(flag) == nil {
			continue
		}
		k, _ := s.Kinds.Of(word)
		_ = c.RegisterFlagCompletionFunc(flag, s.completeNames(k.KindInfo))
	}
	for _, sub := range c.Commands() {
		s.completeFlags(sub)
	}
}
