package model

// Tokenize turns text into token ids, one per run of characters between white space, by hashing: the same word is the
// same token. Ids are in [16, Vocabulary); the ones below are the template's.
func (p *Profile) Tokenize(text string) []int32 {
	var out []int32
	in := false
	var h uint64
	flush := func() {
		if in {
			out = append(out, p.tokenOf(h))
			in = false
		}
	}
	for i := 0; i < len(text); i++ {
		switch c := text[i]; c {
		case ' ', '\t', '\n', '\r', '\v', '\f':
			flush()
		default:
			if !in {
				in, h = true, 0xcbf29ce484222325
			}
			h = (h ^ uint64(c)) * 0x100000001b3
		}
	}
	flush()
	return out
}

const reserved = 16 // token ids that no word has

func (p *Profile) tokenOf(h uint64) int32 {
	n := uint64(p.Model.Vocabulary)
	if n <= 2*reserved {
		return int32(mix(h) % n)
	}
	return int32(reserved + mix(h)%(n-reserved))
}

// ChatTokens applies the chat template: the profile's own tokens around each message (its role) and its words.
func (p *Profile) ChatTokens(messages []Message) []int32 {
	var out []int32
	for _, m := range messages {
		head := (p.Model.MessageTokens + 1) / 2
		for i := range p.Model.MessageTokens {
			if i == head {
				out = append(out, p.Tokenize(m.Content)...)
			}
			out = append(out, p.templateToken(m.Role, i))
		}
		if head == p.Model.MessageTokens {
			out = append(out, p.Tokenize(m.Content)...)
		}
	}
	for i := range p.Model.ReplyTokens {
		out = append(out, p.templateToken("assistant", i))
	}
	return out
}

// Message is one message of a chat.
type Message struct{ Role, Content string }

func (p *Profile) templateToken(role string, i int) int32 {
	h := uint64(i)
	for _, c := range []byte(role) {
		h = (h ^ uint64(c)) * 0x100000001b3
	}
	return int32(mix(h) % uint64(min(reserved, p.Model.Vocabulary)))
}

// OutputToken is the id of the n-th token (from 1) of an answer. It depends on the prompt and n only, so repeated
// requests get the same answer.
func (p *Profile) OutputToken(prompt uint64, n int) int32 {
	return p.tokenOf(prompt + uint64(n)*0x9e3779b97f4a7c15)
}

// PromptHash identifies a prompt's content.
func PromptHash(tokens []int32) uint64 {
	h := uint64(0xcbf29ce484222325)
	for _, t := range tokens {
		h = (h ^ uint64(uint32(t))) * 0x100000001b3
		h ^= h >> 29
	}
	return mix(h)
}
