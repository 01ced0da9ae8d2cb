//! Traversal of a network's parameters, always in the same order, as flat tensors.
//!
//! Optimizer and pruning work on `[numbers]`: their operations are element-wise, so shapes are not needed.

use burn::{
    module::{Module, ModuleMapper, ModuleVisitor, Param, ParamId},
    tensor::{
        Tensor,
        backend::{AutodiffBackend, Backend},
    },
};

use super::param_info::ParamInfo;

/// Names and shapes of `module`'s parameters.
pub fn infos<B: Backend, M: Module<B>>(module: &M) -> Vec<ParamInfo> {
    struct Infos {
        path: Vec<String>,
        found: Vec<ParamInfo>,
    }

    impl<B: Backend> ModuleVisitor<B> for Infos {
        // A name consists of the places of a parameter, not of the kinds of its modules.
        fn enter_module(&mut self, name: &str, container: &str) {
            if !container.starts_with("Enum:") {
                self.path.push(name.to_owned());
            }
        }

        fn exit_module(&mut self, _name: &str, container: &str) {
            if !container.starts_with("Enum:") {
                self.path.pop();
            }
        }

        fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<B, D>>) {
            self.found.push(ParamInfo { name: self.path.join("."), shape: param.dims().to_vec() });
        }
    }

    let mut visitor = Infos { path: Vec::new(), found: Vec::new() };
    module.visit(&mut visitor);
    visitor.found
}

/// The ids of `module`'s parameters.
pub(crate) fn ids<B: Backend, M: Module<B>>(module: &M) -> Vec<ParamId> {
    struct Ids(Vec<ParamId>);

    impl<B: Backend> ModuleVisitor<B> for Ids {
        fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<B, D>>) {
            self.0.push(param.id);
        }
    }

    let mut visitor = Ids(Vec::new());
    module.visit(&mut visitor);
    visitor.0
}

/// The values of `module`'s parameters, each as `[numbers]`.
pub fn values<B: AutodiffBackend, M: Module<B>>(module: &M) -> Vec<Tensor<B::InnerBackend, 1>> {
    struct Values<B: AutodiffBackend>(Vec<Tensor<B::InnerBackend, 1>>);

    impl<B: AutodiffBackend> ModuleVisitor<B> for Values<B> {
        fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<B, D>>) {
            self.0.push(flat(param.val().inner()));
        }
    }

    let mut visitor = Values::<B>(Vec::new());
    module.visit(&mut visitor);
    visitor.0
}

/// Takes the gradients of `module`'s parameters out of `gradients`, each as `[numbers]`; `None` where the loss does not
/// depend on a parameter.
pub fn gradients<B: AutodiffBackend, M: Module<B>>(
    module: &M,
    gradients: &mut B::Gradients,
) -> Vec<Option<Tensor<B::InnerBackend, 1>>> {
    struct Grads<'a, B: AutodiffBackend> {
        gradients: &'a mut B::Gradients,
        found: Vec<Option<Tensor<B::InnerBackend, 1>>>,
    }

    impl<B: AutodiffBackend> ModuleVisitor<B> for Grads<'_, B> {
        fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<B, D>>) {
            self.found.push(param.val().grad_remove(self.gradients).map(flat));
        }
    }

    let mut visitor = Grads::<B> { gradients, found: Vec::new() };
    module.visit(&mut visitor);
    visitor.found
}

/// `module` with every parameter replaced by `change` of its place in the order and its value `[numbers]`.
pub fn map_values<B: AutodiffBackend, M: Module<B>>(
    module: M,
    change: &mut dyn FnMut(usize, Tensor<B::InnerBackend, 1>) -> Tensor<B::InnerBackend, 1>,
) -> M {
    struct Change<'a, B: AutodiffBackend> {
        index: usize,
        change: &'a mut dyn FnMut(usize, Tensor<B::InnerBackend, 1>) -> Tensor<B::InnerBackend, 1>,
    }

    impl<B: AutodiffBackend> ModuleMapper<B> for Change<'_, B> {
        fn map_float<const D: usize>(&mut self, param: Param<Tensor<B, D>>) -> Param<Tensor<B, D>> {
            let (id, tensor, mapper) = param.consume();
            let requires_gradient = tensor.is_require_grad();
            let shape = tensor.dims();
            let new_value = (self.change)(self.index, flat(tensor.inner())).reshape(shape);
            self.index += 1;
            Param::from_mapped_value(id, Tensor::from_inner(new_value).set_require_grad(requires_gradient), mapper)
        }
    }

    module.map(&mut Change::<B> { index: 0, change })
}

fn flat<B: Backend, const D: usize>(tensor: Tensor<B, D>) -> Tensor<B, 1> {
    let numbers = tensor.shape().num_elements();
    tensor.reshape([numbers])
}
