//! Names, shapes and roles of parameters.

use sweep_job::tasks::DecayOn;

/// Role of a parameter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// The table of tokens, which may also be the output layer.
    TokenTable,
    /// The output layer, if it is not the table of tokens.
    Head,
    /// The table of positions.
    PositionTable,
    /// The table of value embeddings.
    ValueTable,
    /// The weight of a linear layer.
    Linear,
    /// The matrix of a router, whose logits decide about experts. It is neither pruned nor rounded to codes.
    Router,
    /// A matrix for each head, of MLA. Never pruned, because the reference prunes only weights of linear layers.
    HeadMaps,
    /// A bias, a gain of a LayerNorm, or a mechanism's strength.
    Vector,
}

/// A parameter's name, shape and role.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParamInfo {
    /// Its name in nanoGPT and on the Hub, such as `h.0.attn.c_attn.weight`.
    pub name: String,
    /// Its shape; linear weights are `[in, out]`.
    pub shape: Vec<usize>,
}

impl ParamInfo {
    /// Number of elements.
    pub fn len(&self) -> usize {
        self.shape.iter().product()
    }

    /// Inputs and outputs of a matrix `[in, out]`; of any other tensor, 1 and its number of elements.
    pub fn matrix(&self) -> [usize; 2] {
        match self.shape[..] {
            [inputs, outputs] => [inputs, outputs],
            _ => [1, self.len()],
        }
    }

    /// True if it has no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Role of the parameter.
    pub fn role(&self) -> Role {
        match self.name.as_str() {
            "wte.weight" => Role::TokenTable,
            "wpe.weight" => Role::PositionTable,
            "vte.weight" => Role::ValueTable,
            "lm_head.weight" => Role::Head,
            name if name.ends_with(".mlp.router.weight") => Role::Router,
            _ if self.shape.len() == 3 => Role::HeadMaps,
            _ if self.shape.len() == 2 => Role::Linear,
            _ => Role::Vector,
        }
    }

    /// True if weight decay shrinks it.
    pub fn decays(&self, on: DecayOn) -> bool {
        match on {
            DecayOn::Linear => matches!(self.role(), Role::Linear | Role::Router | Role::HeadMaps | Role::Head),
            DecayOn::Matrices => self.shape.len() >= 2,
            DecayOn::All => true,
        }
    }

    /// True if it is part of an expert, which only the tokens that choose it reach.
    pub fn is_of_expert(&self) -> bool {
        self.name.contains(".mlp.experts.")
    }

    /// True if its weights may be pruned: in linear layers, and with `head` also in the output layer and the token table.
    pub fn prunable(&self, head: bool) -> bool {
        match self.role() {
            Role::Linear => true,
            Role::TokenTable | Role::Head => head,
            Role::PositionTable | Role::ValueTable | Role::Router | Role::HeadMaps | Role::Vector => false,
        }
    }
}
