package wire

import (
	"encoding/hex"

	"github.com/muster-fleet/muster/internal/model"
)

func appendAsset(dst []byte, field uint32, a *model.ChunkAsset) []byte {
	dst, in := begin(dst, field)
	dst = appendString(dst, 1, a.Name)
	for i := range a.Builds {
		b := &a.Builds[i]
		var at int
		dst, at = begin(dst, 2)
		sum, err := model.ParseAssetSum(b.SHA512)
		if err != nil {
			panic("BUG: a build without a sum: " + err.Error())
		}
		dst = appendBytes(dst, 1, sum[:])
		dst = appendString(dst, 2, b.OS)
		dst = appendString(dst, 3, b.Arch)
		dst = appendString(dst, 4, b.Distribution)
		dst = appendString(dst, 5, b.DistributionVersion)
		dst = end(dst, at)
	}
	return end(dst, in)
}

func (f *fields) asset() (a model.ChunkAsset) {
	in := f.nested("assets", "Asset")
	for in.next() {
		switch in.num {
		case 1:
			a.Name = in.string("name", 2*maxName)
		case 2:
			if in.room("builds", len(a.Builds), model.MaxBuilds) {
				a.Builds = append(a.Builds, in.build())
			}
		}
	}
	f.done(&in)
	return a
}

func (f *fields) build() (b model.AssetBuild) {
	var sum [64]byte
	in := f.nested("builds", "AssetBuild")
	for in.next() {
		switch in.num {
		case 1:
			in.fixed("sha512", sum[:])
		case 2:
			b.OS = in.string("os", maxName)
		case 3:
			b.Arch = in.string("arch", maxName)
		case 4:
			b.Distribution = in.string("distribution", maxName)
		case 5:
			b.DistributionVersion = in.string("distribution_version", maxName)
		}
	}
	f.done(&in)
	b.SHA512 = hex.EncodeToString(sum[:])
	return b
}
