package client

import (
	"context"
	"strings"
	"time"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
)

// Rules returns the alerting and recording rules of a namespace with the outcome of their last evaluation. An
// empty namespace means all that the caller may see.
func (c *Client) Rules(ctx context.Context, namespace string) ([]v1.RuleState, error) {
	a, err := getJSON[struct {
		Data struct {
			Groups []struct {
				File   string `json:"file"`
				Missed int64  `json:"missedEvaluations"`
				Rules  []struct {
					Name           string    `json:"name"`
					Type           string    `json:"type"`
					Health         string    `json:"health"`
					LastError      string    `json:"lastError"`
					EvaluationTime float64   `json:"evaluationTime"`
					LastEvaluation time.Time `json:"lastEvaluation"`
					Alerts         []struct {
						State string `json:"state"`
					} `json:"alerts"`
				} `json:"rules"`
			} `json:"groups"`
		} `json:"data"`
	}](ctx, c.c, promRoot+"/rules", buildQuery("namespace", namespace))
	list := []v1.RuleState{}
	for _, g := range a.Data.Groups {
		in, group, _ := strings.Cut(g.File, "/")
		for _, r := range g.Rules {
			one := v1.RuleState{Namespace: in, Group: group, Rule: r.Name, Type: r.Type, Health: r.Health, Error: r.LastError, Seconds: r.EvaluationTime, At: r.LastEvaluation, Missed: g.Missed}
			for _, alert := range r.Alerts {
				if alert.State == "firing" {
					one.Firing++
				} else {
					one.Pending++
				}
			}
			list = append(list, one)
		}
	}
	return list, err
}
