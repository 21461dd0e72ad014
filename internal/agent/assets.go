package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/muster-fleet/muster/internal/agent/asset"
	"github.com/muster-fleet/muster/internal/agent/link"
	"github.com/muster-fleet/muster/internal/agent/run"
	"github.com/muster-fleet/muster/internal/agent/schedule"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/wire"
)

// awaitAsset is how long a run waits for an asset that is on its way: a new check is then
// not UNKNOWN first.
const awaitAsset = 10 * time.Second

// buildFor is the archive for this machine.
func (a *Agent) buildFor(of *model.ChunkAsset) (sum asset.Sum, ok bool) {
	if b := model.SelectBuild(of.Builds, *a.measured.Load()); b != nil {
		return b.SHA512, true
	}
	return "", false
}

// wantAssets has fetched what the checks need.
func (a *Agent) wantAssets(chunks []*model.CheckChunk) {
	want := map[asset.Sum]bool{}
	if len(a.cfg.AllowCommands) == 0 {
		for _, c := range chunks {
			for i := range c.Assets {
				if sum, ok := a.buildFor(&c.Assets[i]); ok {
					want[sum] = true
				}
			}
		}
	}
	a.assets.Want(want)
}

// assetsOf are the check's assets as they are here, or why it cannot run.
func (a *Agent) assetsOf(ctx context.Context, c *check) (list []run.Asset, problem string) {
	if len(c.chunk.Assets) == 0 {
		return nil, ""
	}
	if len(a.cfg.AllowCommands) > 0 {
		return nil, "refused: the agent here runs only what its setting --allow-commands lists, and assets bring programs of the server"
	}
	ctx, cancel := context.WithTimeout(ctx, min(awaitAsset, cmp.Or(c.chunk.Timeout, awaitAsset)))
	defer cancel()
	for i := range c.chunk.Assets {
		x := &c.chunk.Assets[i]
		sum, ok := a.buildFor(x)
		if !ok {
			return nil, model.MissingBuildError(x.Name, "this machine", *a.measured.Load()).Error()
		}
		dir, err := a.assets.Dir(ctx, sum)
		if err != nil {
			return nil, fmt.Sprintf("asset %s is not here: %s", x.Name, err)
		}
		list = append(list, run.Asset{Name: x.Name, Dir: dir})
	}
	return list, ""
}

// assetArrived lets those run now that could not for want of an asset.
func (a *Agent) assetArrived(asset.Sum) {
	var waiting []schedule.Key
	a.mu.Lock()
	for key, c := range a.checks {
		if c.past.lacks.Load() && !c.chunk.RoundRobin {
			waiting = append(waiting, key)
		}
	}
	a.mu.Unlock()
	for _, key := range waiting {
		a.scheduler.RunNow(key)
	}
}

// fetchAsset asks the servers, in the order of sessions, for an archive from a byte on.
func (a *Agent) fetchAsset(ctx context.Context, sum asset.Sum, from int64) (*asset.Source, error) {
	err := errors.New("no server is known")
	for _, server := range a.credentials.at() {
		var source *asset.Source
		if source, err = a.fetchFrom(ctx, server, sum, from); err == nil {
			return source, nil
		}
	}
	return nil, err
}

func (a *Agent) fetchFrom(ctx context.Context, server string, sum asset.Sum, from int64) (*asset.Source, error) {
	dial := a.cfg.Dial
	if dial == nil {
		dial = link.NewDialer(nil)
	}
	config := link.TLSFor(wire.AssetProtocol, a.credentials.identity(), a.cfg.Machine.Now)
	client := &http.Client{Transport: &http.Transport{
		DialTLSContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return link.DialTLS(ctx, dial, config, server)
		},
		DisableKeepAlives: true, DisableCompression: true, ResponseHeaderTimeout: 30 * time.Second,
	}}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+server+wire.AssetPath+sum, nil)
	if err != nil {
		return nil, err
	}
	if from > 0 {
		request.Header.Set("Range", "bytes="+strconv.FormatInt(from, 10)+"-")
	}
	answer, err := client.Do(request)
	if err != nil {
		return nil, fmt.Errorf("ask %s: %w", server, errors.Unwrap(err))
	}
	switch answer.StatusCode {
	case http.StatusOK:
		return &asset.Source{Body: answer.Body}, nil
	case http.StatusPartialContent:
		return &asset.Source{Body: answer.Body, From: from}, nil
	case http.StatusRequestedRangeNotSatisfiable: // all of it is here, or more
		answer.Body.Close()
		return &asset.Source{Body: io.NopCloser(strings.NewReader("")), From: from}, nil
	}
	defer answer.Body.Close()
	said, _ := io.ReadAll(io.LimitReader(answer.Body, 1<<10))
	return nil, errors.New(cmp.Or(strings.TrimSpace(strings.ToValidUTF8(string(said), "")), answer.Status))
}
