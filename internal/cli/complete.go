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

// completeWithin is how long a shell waits for names; without an answer by then there
// are none, and nothing is said.
const completeWithin = 2 * time.Second

// completion is what cobra asks for what may stand next.
type completion = func(c *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective)

const noFiles = cobra.ShellCompDirectiveNoFileComp

// completeDeclared offers the kinds that people declare.
func (a *app) completeDeclared(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, noFiles
	}
	return a.declaredWords(), noFiles
}

// completeObjects offers a kind, then names of that kind: at most so many.
func (a *app) completeObjects(most int) completion {
	return func(c *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
		if len(args) == 0 {
			return a.kindWords(), noFiles
		}
		if len(args) > most {
			return nil, noFiles
		}
		switch strings.ToLower(args[0]) {
		case "event", "events", "ev", "history":
			return a.completeEvents(c, args[1:], typed)
		case "problem", "problems", "pr":
			return a.ask(c, typed, func(ctx context.Context, api *client.Client) (ids []string, err error) {
				list, err := api.Problems.List(ctx, a.ns(), "", "", true, 100, "")
				for _, p := range list.Items {
					ids = append(ids, p.ID+"\t"+p.Node+"/"+p.Source.String())
				}
				return ids, err
			})
		}
		word := args[0]
		if isStateWord(word) && strings.HasPrefix(strings.ToLower(word), "ag") {
			word = "Node"
		}
		k, ok := a.Kinds.Of(word)
		if !ok {
			return nil, noFiles
		}
		return a.completeNames(k.KindInfo)(c, args, typed)
	}
}

// completeNames offers the names of a kind.
func (a *app) completeNames(k model.KindInfo) completion {
	return func(c *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
		return a.ask(c, typed, func(ctx context.Context, api *client.Client) (names []string, err error) {
			namespace := a.ns()
			if !k.Namespaced {
				namespace = ""
			}
			for after := ""; ; {
				page, err := api.Resources.List(ctx, k, namespace, v1.ResourceFilter{}, false, 1000, after)
				if err != nil {
					return names, err
				}
				for _, item := range page.Items {
					if o, err := decodeObject(item); err == nil {
						names = append(names, o.Metadata.Name)
					}
				}
				if after = page.Next; after == "" {
					return names, nil
				}
			}
		})
	}
}

// completeEvents offers nodes, then NODE/CHECK.
func (a *app) completeEvents(c *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
	node, _, named := strings.Cut(typed, "/")
	if !named {
		k := kind.Node().KindInfo
		names, _ := a.completeNames(k)(c, nil, typed)
		for i := range names {
			names[i] += "/"
		}
		return names, noFiles | cobra.ShellCompDirectiveNoSpace
	}
	return a.ask(c, typed, func(ctx context.Context, api *client.Client) (names []string, err error) {
		list, err := api.Events.List(ctx, v1.EventFilter{Namespace: a.ns(), Node: node, Limit: 1000})
		for _, e := range list.Items {
			names = append(names, e.Node+"/"+e.Check)
		}
		return names, err
	})
}

// ask gets names from the server and leaves those that begin with what was typed.
func (a *app) ask(c *cobra.Command, typed string, list func(context.Context, *client.Client) ([]string, error)) ([]string, cobra.ShellCompDirective) {
	api, err := a.connect()
	if err != nil {
		return nil, noFiles
	}
	ctx := c.Context()
	if ctx == nil {
		ctx = context.Background()
	}
	ctx, cancel := context.WithTimeout(ctx, completeWithin)
	defer cancel()
	names, _ := list(ctx, api) // what came in time is better than nothing
	names = slices.DeleteFunc(names, func(name string) bool { return !strings.HasPrefix(name, typed) })
	slices.Sort(names)
	return slices.Compact(names), noFiles
}

// completeFlags offers names for the flags that take one.
func (a *app) completeFlags(c *cobra.Command) {
	for flag, word := range map[string]string{"namespace": "Namespace", "node": "Node", "check": "Check", "group": "Group"} {
		if c.Flags().Lookup(flag) == nil && c.PersistentFlags().Lookup(flag) == nil {
			continue
		}
		k, _ := a.Kinds.Of(word)
		_ = c.RegisterFlagCompletionFunc(flag, a.completeNames(k.KindInfo))
	}
	for _, sub := range c.Commands() {
		a.completeFlags(sub)
	}
}
