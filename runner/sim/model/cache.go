package model

// pool is the KV cache: blocks with reference counts. Blocks that nobody uses are in a list ordered by when they were
// let go; a new block is taken from its front, and loses its content only then. So a prefix stays findable until the
// memory is needed (least recently used goes first).
type pool struct {
	hash       []uint64 // content of a block; 0 = none that can be found
	ref        []int32
	prev, next []int32 // the free list; index len(ref) is its sentinel
	free       int
	byHash     map[uint64]int32
}

func newPool(n int) *pool {
	p := &pool{
		hash: make([]uint64, n), ref: make([]int32, n),
		prev: make([]int32, n+1), next: make([]int32, n+1), byHash: map[uint64]int32{},
	}
	p.next[n], p.prev[n] = int32(n), int32(n)
	for b := range n {
		p.push(int32(b))
	}
	return p
}

func (p *pool) size() int { return len(p.ref) }

func (p *pool) push(b int32) {
	s := int32(len(p.ref))
	last := p.prev[s]
	p.next[last], p.prev[b], p.next[b], p.prev[s] = b, last, s, b
	p.free++
}

func (p *pool) unlink(b int32) {
	p.next[p.prev[b]], p.prev[p.next[b]] = p.next[b], p.prev[b]
	p.free--
}

// take returns a block for new content. The caller has checked that one is free.
func (p *pool) take() int32 {
	b := p.next[len(p.ref)]
	p.unlink(b)
	if h := p.hash[b]; h != 0 {
		if p.byHash[h] == b {
			delete(p.byHash, h)
		}
		p.hash[b] = 0
	}
	p.ref[b] = 1
	return b
}

// find returns the block with this content and one more reference to it.
func (p *pool) find(h uint64) (int32, bool) {
	b, ok := p.byHash[h]
	if !ok {
		return 0, false
	}
	if p.ref[b] == 0 {
		p.unlink(b)
	}
	p.ref[b]++
	return b, true
}

func (p *pool) release(b int32) {
	p.ref[b]--
	if p.ref[b] == 0 {
		p.push(b)
	}
}

// publish makes a full block findable, unless another block already has the same content.
func (p *pool) publish(b int32, h uint64) {
	if _, taken := p.byHash[h]; taken || p.hash[b] != 0 {
		return
	}
	p.hash[b] = h
	p.byHash[h] = b
}

// reset forgets all content. It does nothing and returns false while a block is in use.
func (p *pool) reset() bool {
	if p.free != p.size() {
		return false
	}
	clear(p.hash)
	clear(p.byHash)
	return true
}

// blockHashes returns one hash per full block of tokens; each covers everything before it too. A salt other than 0
// keeps the prompts of one tenant apart from all others'.
func blockHashes(tokens []int32, block int, salt uint64) []uint64 {
	n := len(tokens) / block
	if n == 0 {
		return nil
	}
	out := make([]uint64, n)
	h := mix(salt ^ 0x9e3779b97f4a7c15)
	for i := range n {
		for _, t := range tokens[i*block : (i+1)*block] {
			h = (h ^ uint64(uint32(t))) * 0x100000001b3
			h ^= h >> 29
		}
		h = mix(h)
		out[i] = h | 1 // never 0
	}
	return out
}

// mix is the finaliser of splitmix64: it spreads a number over all 64 bits.
func mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
