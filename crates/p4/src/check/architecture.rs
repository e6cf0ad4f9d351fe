//! The pipeline: which parser and controls stand where, and what they share.

use std::rc::Rc;

use crate::ast::{ControlDecl, Expr, ExprKind, ParserDecl, TypeKind};
use crate::ir::FieldKind;
use crate::source::Span;

use super::block::Given;
use super::types::{Entity, standard_fields};
use super::{Checker, Where};

const PARTS: [&str; 6] =
    ["the parser", "verifying checksums", "the ingress", "the egress", "computing checksums", "the deparser"];

impl Checker<'_> {
    /// `V1Switch(...) main;`, and all that it names.
    pub(super) fn architecture(&mut self) {
        let Some(main) = self.main.take() else {
            self.sink.error(Span::default(), "the program has no `main`").label("in this program").help(
                "end it with `V1Switch(Parser(), Verify(), Ingress(), Egress(), Compute(), Deparser()) main;`",
            );
            return;
        };
        let is_v1 = matches!(&main.ty.kind, TypeKind::Named(name) if &*name.text == "V1Switch");
        if !is_v1 {
            self.sink.refuse(main.ty.span, "an architecture other than `V1Switch` is");
            return;
        }
        if !self.expect_arguments(&main.arguments, PARTS.len(), main.ty.span) {
            return;
        }
        let parser = self.parser_named(&main.arguments[0]);
        let controls: Vec<_> =
            (1..PARTS.len()).map(|at| self.control_named(&main.arguments[at], PARTS[at])).collect();
        let Some(Entity::Type(standard_ty)) = self.find("standard_metadata_t").cloned() else {
            self.sink
                .error(main.ty.span, "there is no type `standard_metadata_t`")
                .help("`#include <v1model.p4>` declares it");
            return;
        };
        let (Some(parser), [Some(verify), Some(ingress), Some(egress), Some(compute), Some(deparser)]) =
            (parser, &controls[..])
        else {
            return;
        };
        let [_, headers, metadata, _] = &parser.parameters[..] else {
            let message = format!(
                "the parser `{}` has 4 parameters: packet, headers, metadata, standard metadata",
                parser.name.text
            );
            self.sink.error(parser.name.span, message);
            return;
        };
        let (headers_ty, metadata_ty) = (self.ty(&headers.ty), self.ty(&metadata.ty));
        let headers = self.place(&headers_ty, "hdr", FieldKind::Metadata, headers.name.span);
        let metadata = self.place(&metadata_ty, "meta", FieldKind::Metadata, metadata.name.span);
        let standard = self.place(&standard_ty, "standard_metadata", FieldKind::Standard, main.ty.span);
        self.program.standard = standard_fields(&standard);
        self.standard = Some(Rc::clone(&standard));
        let [headers, metadata, standard] = [headers, metadata, standard].map(Given::Place);

        let whole = [headers.clone(), metadata.clone(), standard.clone()];
        let of_parser = [Given::PacketIn, headers.clone(), metadata.clone(), standard];
        self.program.parser = self.parser_block(&parser, &of_parser);
        let of_checksums = [headers.clone(), metadata];
        self.program.verify_checksum =
            self.control_block(verify, "verify_checksum", Where::Checksum, &of_checksums);
        self.program.ingress = self.control_block(ingress, "ingress", Where::Control, &whole);
        self.program.egress = self.control_block(egress, "egress", Where::Control, &whole);
        self.program.compute_checksum =
            self.control_block(compute, "compute_checksum", Where::Checksum, &of_checksums);
        self.program.deparser =
            self.control_block(deparser, "deparser", Where::Deparser, &[Given::PacketOut, headers]);
    }

    /// `Name()`
    fn instance_named<'e>(&mut self, expr: &'e Expr, what: &str) -> Option<&'e crate::ast::Name> {
        if let ExprKind::Call(callee, _, arguments) = &expr.kind
            && let ExprKind::Name(name) = &callee.kind
            && arguments.is_empty()
        {
            return Some(name);
        }
        self.sink.error(expr.span, format!("{what} is given by its name")).help("write `Name()`");
        None
    }

    fn parser_named(&mut self, expr: &Expr) -> Option<Rc<ParserDecl>> {
        let name = self.instance_named(expr, PARTS[0])?.clone();
        match self.lookup(&name, "parser")? {
            Entity::Parser(parser) => Some(parser),
            _ => {
                self.sink.error(name.span, format!("`{}` is not a parser", name.text));
                None
            }
        }
    }

    fn control_named(&mut self, expr: &Expr, what: &str) -> Option<Rc<ControlDecl>> {
        let name = self.instance_named(expr, what)?.clone();
        match self.lookup(&name, "control")? {
            Entity::Control(control) => Some(control),
            _ => {
                self.sink.error(name.span, format!("`{}` is not a control", name.text));
                None
            }
        }
    }
}
