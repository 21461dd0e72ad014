package where

import (
	"slices"
	"testing"
)

func TestNeeds(t *testing.T) {
	prod, web := Need{NeedsLabel, "env", "prod"}, Need{NeedsGroup, "", "web"}
	for expr, want := range map[string][]Need{
		`node.labels.env == "prod"`:                                 {prod},
		`"prod" == node.labels["env"]`:                              {prod},
		`node.name == "db1" && ("web" in node.groups)`:              {{NeedsName, "", "db1"}, web},
		`has(node.labels.x) && node.labels.env == "prod" && true`:   {prod},
		`node.labels.env == "prod" || node.name == "db1"`:           nil,
		`!(node.labels.env == "prod")`:                              nil,
		`node.labels.env != "prod"`:                                 nil,
		`node.labels.env == ""`:                                     nil,
		`node.labels.env == node.name`:                              nil,
		`node.facts.env == "prod"`:                                  nil,
		`"env" in node.labels`:                                      nil,
		`node.labels[node.name] == "prod"`:                          nil,
		`["prod"].exists(v, node.labels.env == v)`:                  nil,
		`node.labels.env == "prod" ? "web" in node.groups : false`:  nil,
		`(node.labels.env == "prod") == ("web" in node.groups)`:     nil,
		`node.namespace == "team" && node.name.startsWith("db")`:    nil,
		`node.labels.env == "prod" && int(node.labels.cpus) > 4`:    {prod},
		`int(node.labels.cpus) > 4 && !("web" in node.groups)`:      nil,
		`"web" in node.groups && node.labels.env in ["prod", "qa"]`: {web},
	} {
		c, err := Compile(expr)
		if err != nil {
			t.Fatal(err)
		}
		if got := c.Needs(); !slices.Equal(got, want) {
			t.Errorf("%s needs %v, want %v", expr, got, want)
		}
	}
}
